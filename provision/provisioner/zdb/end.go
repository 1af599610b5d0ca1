package zdb

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// Decommission removes the namespace with its data, and a zdb container with its
// last namespace.
func (p *Provisioner) Decommission(ctx context.Context, r *workload.Reservation) error {
	claim, err := provisioner.ClaimOf(r, p.Past)
	var places []server
	if err == nil {
		places, err = p.places(ctx, r)
	}
	for _, at := range places {
		if err == nil {
			err = p.drop(ctx, at, r.ID, claim)
		}
	}
	if err == nil {
		err = p.sweep(ctx, r.ID)
	}
	return errors.Wrapf(err, "cannot decommission zdb namespace %s", r.ID)
}

// Remove removes the namespaces that have the label, with their data, from all zdb
// containers that list them. Others may have one of that ID with another hash.
func (p *Provisioner) Remove(ctx context.Context, orphan provisioner.Label) error {
	claim := orphan.Claim()
	answers, err := p.answering(ctx)
	var places []server
	if err == nil {
		places, err = p.listing(ctx, answers, func(n node.ZDBNamespace) bool { return n.Name == orphan.ID && claim.Takes(n.Hash) })
	}
	for _, at := range places {
		if err == nil {
			err = p.drop(ctx, at, orphan.ID, claim)
		}
	}
	if err == nil {
		err = p.sweep(ctx, "")
	}
	return errors.Wrapf(err, "cannot remove zdb namespace %s", orphan.ID)
}

// places are the zdb containers that may have the namespace: the one in the
// records, else all possible ones that don't answer, and all that list it.
func (p *Provisioner) places(ctx context.Context, r *workload.Reservation) ([]server, error) {
	var out []server
	id, _ := p.Homes.Get(r.ID)
	home, known := serverOf(id)
	if known {
		out = append(out, home)
	}
	answers, err := p.answering(ctx)
	if err != nil {
		return nil, err
	}
	if want, err := planOf(r); err == nil && !known {
		if out, err = p.unasked(ctx, want, answers); err != nil {
			return nil, err
		}
	}
	listed, err := p.listing(ctx, answers, func(n node.ZDBNamespace) bool { return n.Name == r.ID })
	for _, at := range listed {
		if !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	return out, err
}

// listing are the answering zdb containers that list such a namespace.
func (p *Provisioner) listing(ctx context.Context, answers map[string]bool, is func(node.ZDBNamespace) bool) ([]server, error) {
	all, err := p.Storage.ListFilesystems(ctx)
	if err != nil {
		return nil, err
	}
	var out []server
	for _, fs := range all {
		if at, ok := serverOf(fs.Name); ok && answers[fs.Name] {
			if in, err := p.Namespaces.List(ctx, at.id()); err == nil && slices.ContainsFunc(in, is) {
				out = append(out, at)
			}
		}
	}
	return out, nil
}

// unasked are the zdb containers that may have the plan's namespace, and don't
// answer now or can't be inspected.
func (p *Provisioner) unasked(ctx context.Context, want plan, answers map[string]bool) ([]server, error) {
	status, err := p.Storage.Status(ctx)
	if err != nil {
		return nil, err
	}
	was, err := p.Homes.Was(want.namespace.Name)
	if err != nil {
		return nil, err
	}
	var out []server
	for _, pool := range poolNames(status, want.disk) {
		at := server{pool: pool, mode: want.mode}
		_, err := p.Storage.InspectFilesystem(ctx, at.id())
		if node.KindOf(err) == node.NotExist || err != nil && !was {
			continue
		}
		if err != nil || !answers[at.id()] {
			out = append(out, at)
		}
	}
	return out, nil
}

func has(all []node.ZDBNamespace, name string) bool { return indexOf(all, name) >= 0 }

func indexOf(all []node.ZDBNamespace, name string) int {
	return slices.IndexFunc(all, func(n node.ZDBNamespace) bool { return n.Name == name })
}

// drop removes a namespace from a zdb container, if the claim covers it. It then
// shrinks the container's volume, or removes a container without namespaces.
func (p *servers) drop(ctx context.Context, at server, name string, claim provisioner.Claim) error {
	_, err := p.Storage.InspectFilesystem(ctx, at.id())
	if node.KindOf(err) == node.NotExist {
		return nil // the namespace is gone with its volume
	}
	if err != nil {
		return err
	}
	var undo provisioner.Undo
	in, err := p.reach(ctx, at, plan{}, &undo)
	if err != nil {
		return again(undo.Rollback(ctx, err))
	}
	all, err := p.Namespaces.List(ctx, at.id())
	if err != nil {
		return err
	}
	if i := indexOf(all, name); i >= 0 && claim.Takes(all[i].Hash) {
		if err := p.Namespaces.Delete(ctx, at.id(), name); err != nil && node.KindOf(err) != node.NotExist {
			return err
		}
		all = slices.Delete(all, i, i+1)
	}
	if len(all) == 0 {
		return p.clear(ctx, at)
	}
	return p.shrink(ctx, in.volume, volumeSize(all))
}

// How long to wait for deleted data to be reclaimed in a volume.
const (
	shrinkPause = 200 * time.Millisecond
	shrinkTries = 5
)

// shrink makes a zdb container's volume as small as its namespaces allow. Until
// deleted data is reclaimed it stays larger: Look then reports it as drift.
func (p *servers) shrink(ctx context.Context, volume node.Filesystem, size uint64) error {
	if volume.Size <= size {
		return nil
	}
	for try := 1; ; try++ {
		_, err := p.Storage.ResizeFilesystem(ctx, volume.Name, size)
		if node.KindOf(err) != node.Busy {
			return err
		}
		if try == shrinkTries {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(shrinkPause):
		}
	}
}

// sweep clears the remains of zdb containers without namespaces: an attempt may
// have ended, or the node died, between two steps. leaving is the ID of a
// namespace whose record doesn't count.
func (p *Provisioner) sweep(ctx context.Context, leaving string) error {
	left, err := p.made(ctx)
	if err != nil {
		return err
	}
	homes, err := p.Homes.All()
	if err != nil {
		return err
	}
	delete(homes, leaving)
	for _, h := range homes {
		if at, ok := serverOf(h.Container); ok {
			delete(left, at)
		}
	}
	for at := range left {
		if err := p.sweepOne(ctx, at); err != nil {
			return err
		}
	}
	return nil
}

// made are the zdb containers of which any part is on the node.
func (p *Provisioner) made(ctx context.Context) (map[server]bool, error) {
	out := map[server]bool{}
	note := func(id string) {
		if at, ok := serverOf(id); ok {
			out[at] = true
		}
	}
	volumes, err := p.Storage.ListFilesystems(ctx)
	if err != nil {
		return nil, err
	}
	for _, fs := range volumes {
		note(strings.TrimSuffix(fs.Name, layerSuffix))
	}
	images, err := p.Images.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, i := range images {
		note(i.Label)
	}
	containers, err := p.Containers.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range containers {
		note(c.ID)
	}
	servers, err := p.Servers.Servers(ctx)
	for _, s := range servers {
		note(s.Container)
	}
	return out, err
}

// sweepOne clears a zdb container that is known to be empty. One that can't be
// listed may hold an orphan's data: it stays.
func (p *servers) sweepOne(ctx context.Context, at server) error {
	all, err := p.look(ctx, at)
	switch {
	case node.KindOf(err) == node.NotExist:
		return p.clear(ctx, at)
	case err != nil || len(all) > 0:
		return nil
	}
	return p.clear(ctx, at)
}

// tidyTime bounds the cleanup after a failed attempt.
const tidyTime = 30 * time.Second

// tidied clears the remains of a zdb container after an attempt that failed for
// good, unless namespaces live in it, and returns the attempt's error. If it
// can't clear them, the error becomes Unknown, which is retried.
func (p *servers) tidied(ctx context.Context, at server, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTime)
	defer cancel()
	homes, err := p.Homes.All()
	if err != nil {
		return cause
	}
	for _, h := range homes {
		if h.Container == at.id() {
			return cause
		}
	}
	if err := p.sweepOne(ctx, at); err != nil {
		return node.Errorf(node.Unknown, "%w; %v", cause, err)
	}
	return cause
}
