package plane

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/pkg/errors"
)

// show makes the resources of a type be those: a resource that is as it was isn't written, one that isn't among them
// is destroyed.
func show(ctx context.Context, r controller.ReaderWriter, of meta.ResourceWithRD, all []resource.Resource) error {
	d := of.ResourceDefinition()
	shown, err := r.List(ctx, resource.NewMetadata(d.DefaultNamespace, d.Type, "", resource.VersionUndefined))
	if err != nil {
		return errors.Wrapf(err, "cannot list %s", d.Type)
	}
	all = apart(all)
	gone := make(map[resource.ID]resource.Resource, len(shown.Items))
	for _, each := range shown.Items {
		gone[each.Metadata().ID()] = each
	}
	for _, each := range all {
		was := gone[each.Metadata().ID()]
		delete(gone, each.Metadata().ID())
		if was != nil && same(was, each) {
			continue
		}
		if err := put(ctx, r, each); err != nil {
			return err
		}
	}
	for _, each := range gone {
		if err := r.Destroy(ctx, each.Metadata()); ignoreMissing(err) != nil {
			return errors.Wrapf(err, "cannot remove %s", each.Metadata())
		}
	}
	return nil
}

// apart gives resources of one ID IDs of their own: the second of "1-1" is "1-1~2". A lost store and a lying explorer may
// have left several things of one reservation on a node.
func apart(all []resource.Resource) []resource.Resource {
	seen := make(map[resource.ID]int, len(all))
	for _, r := range all {
		md := r.Metadata()
		id := md.ID()
		if seen[id]++; seen[id] == 1 {
			continue
		}
		other := resource.NewMetadata(md.Namespace(), md.Type(), fmt.Sprintf("%s~%d", id, seen[id]), resource.VersionUndefined)
		*other.Labels() = *md.Labels()
		*md = other
	}
	return all
}

// same reports whether two versions of a resource say the same.
func same(a, b resource.Resource) bool {
	return reflect.DeepEqual(a.Spec(), b.Spec()) && a.Metadata().Labels().Equal(*b.Metadata().Labels())
}

// put writes a resource as it is given: its spec and its labels.
func put(ctx context.Context, r controller.Writer, next resource.Resource) error {
	err := r.Modify(ctx, next, func(is resource.Resource) error {
		set(is, next)
		return nil
	})
	return errors.Wrapf(err, "cannot show %s", next.Metadata())
}

// set gives a resource the spec and the labels of another of its type.
func set(is, next resource.Resource) {
	reflect.ValueOf(is.Spec()).Elem().Set(reflect.ValueOf(next.DeepCopy().Spec()).Elem())
	*is.Metadata().Labels() = *next.Metadata().Labels()
}

// ignoreMissing is err, but for a resource that there isn't.
func ignoreMissing(err error) error {
	if state.IsNotFoundError(err) {
		return nil
	}
	return err
}

// plural is the first part of a type's name.
func plural(t resource.Type) string {
	name, _, _ := strings.Cut(t, ".")
	return name
}

// wait returns after d, or false at once when ctx is done.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
