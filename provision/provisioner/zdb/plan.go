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
	// base is what a zdb container's volume has beside its namespaces, for the
	// default one and for what the file system itself writes; bytes.
	base = 64 * mib
	// layerSize is that of the file system for what a zdb container writes
	// beside its volume: nothing, but it needs one.
	layerSize = 64 * mib
	// longestPassword is the most that zdb takes, in bytes.
	longestPassword = 63
)

// plan is what to ask of the modules for one reservation.
type plan struct {
	claim provisioner.Claim
	disk  workload.DeviceType
	mode  workload.ZDBMode
	// namespace lacks its container, which depends on what is on the node.
	namespace node.ZDBNamespaceSpec
}

// planOf decides what to ask for, of the reservation's data alone. The password
// is still sealed.
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

// opened is the plan with its password opened. A box that can't be opened is
// the user's mistake; an identity module that doesn't answer isn't.
func (p plan) opened(ctx context.Context, r *workload.Reservation, identity Identity) (plan, error) {
	if p.namespace.Password == "" {
		return p, nil
	}
	decrypt := func(box []byte) ([]byte, error) { return identity.Decrypt(ctx, box) }
	var plain []byte
	var err error
	if r.DocumentVersion() == 1 {
		plain, err = workload.OpenSecretV1(decrypt, p.namespace.Password)
	} else {
		plain, err = workload.OpenSecret(decrypt, r.User, r.Type, "password", p.namespace.Password)
	}
	switch kind := node.KindOf(err); {
	case kind == node.Internal || kind == node.Invalid:
		return p, node.Errorf(node.Invalid, "data.password must be sealed to this node for this user and field: %w", err)
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

// server is a zdb container: one a pool and mode.
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

// serverOf reads a zdb container's ID.
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

// Own is what of a zdb container's file system isn't its namespaces', in bytes;
// false for any other.
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

// volumeSize is how large a zdb container's volume is for these namespaces.
func volumeSize(all []node.ZDBNamespace) uint64 {
	size := uint64(base)
	for _, n := range all {
		if size += zdbspace.Bound(n.Size); size < zdbspace.Bound(n.Size) {
			return math.MaxUint64
		}
	}
	return size
}

// with is all with one more, or with that one's new size.
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
