package zdb

import (
	"bytes"
	"context"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/pkg/zdbspace"
	"github.com/croft-edge/croft/provision/provisioner"
)

const (
	mib = 1 << 20
	gib = 1 << 30
	// base is the space in a zdb container's volume, in bytes, for the default
	// namespace and the file system's own metadata.
	base = 64 * mib
	// layerSize is the size of a zdb container's layer, in bytes: it writes only
	// to its volume, but needs a layer.
	layerSize = 64 * mib
	// longestPassword is zdb's longest password, in bytes.
	longestPassword = 63
)

// plan holds the requests to the modules for one reservation.
type plan struct {
	claim provisioner.Claim
	disk  workload.DeviceType
	mode  workload.ZDBMode
	// namespace lacks its container, which depends on the node's state.
	namespace node.ZDBNamespaceSpec
}

// planOf makes the plan from the reservation's data alone. The password is still
// sealed.
func planOf(r *workload.Reservation) (plan, error) {
	data, err := workload.DataOf[workload.ZDB](r)
	if err != nil {
		return plan{}, node.WithKind(node.Invalid, err)
	}
	if data.Size < 1 || data.Size > math.MaxInt64/gib {
		return plan{}, node.Errorf(node.Invalid, "data.size is %d GiB, must be from 1 to %d", data.Size, uint64(math.MaxInt64/gib))
	}
	return plan{
		disk: data.DiskType, mode: data.Mode,
		namespace: node.ZDBNamespaceSpec{Name: r.ID, Size: data.Bytes(), Password: data.Password, Public: data.Public},
	}, nil
}

// opened returns the plan with its password opened.
func (p plan) opened(ctx context.Context, r *workload.Reservation, identity provisioner.Identity) (plan, error) {
	if p.namespace.Password == "" {
		return p, nil
	}
	plain, err := provisioner.OpenSecret(ctx, identity, r, "password", p.namespace.Password)
	switch {
	case err != nil:
		return p, err
	case len(plain) == 0 || len(plain) > longestPassword:
		return p, node.Errorf(node.Invalid, "data.password holds %d bytes, must hold from 1 to %d", len(plain), longestPassword)
	case !utf8.Valid(plain) || bytes.ContainsFunc(plain, unicode.IsControl):
		return p, node.Errorf(node.Invalid, "data.password holds bytes that aren't text, must be UTF-8 without control characters")
	case string(plain) == "*":
		return p, node.Errorf(node.Invalid, `data.password is "*", which zdb takes for none: must be another`)
	}
	p.namespace.Password = string(plain)
	return p, nil
}

// server identifies a zdb container: there is one per pool and mode.
type server struct {
	pool string
	mode workload.ZDBMode
}

// The parts of a zdb container's ID around its pool's name.
const (
	idStart     = "zdb-"
	layerSuffix = ".layer"
)

func (s server) id() string { return idStart + s.pool + "-" + string(s.mode) }

func (s server) layer() string { return s.id() + layerSuffix }

// serverOf parses a zdb container's ID.
func serverOf(id string) (server, bool) {
	rest, ok := strings.CutPrefix(id, idStart)
	if !ok {
		return server{}, false
	}
	for _, mode := range []workload.ZDBMode{workload.ZDBUser, workload.ZDBSeq} {
		if pool, ok := strings.CutSuffix(rest, "-"+string(mode)); ok && pool != "" {
			return server{pool: pool, mode: mode}, true
		}
	}
	return server{}, false
}

// Own is the part of a zdb container's file system, in bytes, that isn't its
// namespaces'; false for any other file system.
func Own(fs node.Filesystem) (uint64, bool) {
	id, isLayer := strings.CutSuffix(fs.Name, layerSuffix)
	if _, ok := serverOf(id); !ok {
		return 0, false
	}
	if isLayer {
		return fs.Size, true
	}
	return min(fs.Size, base), true
}

// volumeSize is the size of a zdb container's volume with these namespaces, in bytes.
func volumeSize(all []node.ZDBNamespace) uint64 {
	size := uint64(base)
	for _, n := range all {
		if size += zdbspace.Bound(n.Size); size < zdbspace.Bound(n.Size) {
			return math.MaxUint64
		}
	}
	return size
}

// with returns all with one added, or with its new size if it is there.
func with(all []node.ZDBNamespace, one node.ZDBNamespaceSpec) (out []node.ZDBNamespace, there bool) {
	out = append(out, all...)
	for i := range out {
		if out[i].Name == one.Name {
			out[i].Size = one.Size
			return out, true
		}
	}
	return append(out, node.ZDBNamespace{Name: one.Name, Size: one.Size}), false
}
