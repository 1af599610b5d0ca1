package network

import (
	"context"
	"iter"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/network/resource"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// memberID is the syntax of members' IDs; memberName is a DNS label.
func memberID() *regexp.Regexp   { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`) }
func memberName() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`) }

// mostIPs bounds the addresses of one member.
const mostIPs = 16

// readJoinRequest does the checks that don't depend on the network, and parses the addresses.
func readJoinRequest(r resource.JoinRequest, ips []string) (resource.JoinRequest, error) {
	if !memberID().MatchString(r.ID) {
		return r, r.Refusal(node.Invalid, "its ID", r.ID, "1 to 64 letters, digits, dots and dashes")
	}
	if r.Name != "" && !memberName().MatchString(r.Name) {
		return r, r.Refusal(node.Invalid, "its name", r.Name, "a DNS label of a-z, 0-9 and dashes")
	}
	if err := r.Claim.Valid("join member " + r.ID); err != nil {
		return r, err
	}
	if len(ips) > mostIPs {
		return r, r.Refusal(node.Invalid, "the number of ips", len(ips), "at most 16")
	}
	for _, text := range ips {
		ip, err := netip.ParseAddr(text)
		if err != nil || !ip.Unmap().Is4() {
			return r, r.Refusal(node.Invalid, "an IP", text, "an IPv4 address")
		}
		if slices.Contains(r.IPs, ip.Unmap()) {
			return r, r.Refusal(node.Invalid, "an IP", text, "there once")
		}
		r.IPs = append(r.IPs, ip.Unmap())
	}
	if r.Tap {
		return r, nil
	}
	return identify(r)
}

// identify finds the namespace of a request: a file's or a process's.
func identify(r resource.JoinRequest) (resource.JoinRequest, error) {
	field, value := "its network namespace", any(r.Namespace)
	var err error
	switch {
	case r.Namespace != "" && r.PID != 0:
		return r, node.Errorf(node.Invalid, "cannot join member %s: Namespace is %q and PID is %d, must be one of them", resource.Bounded(r.ID), resource.Bounded(r.Namespace), r.PID)
	case r.Namespace == "" && r.PID == 0:
		return r, node.Errorf(node.Invalid, "cannot join member %s: neither Namespace nor PID is there, must be one of them", resource.Bounded(r.ID))
	case r.Namespace == "":
		field, value = "its process", r.PID
		if r.Inode, err = netns.Inode(netns.OfProcess(r.PID)); err != nil {
			return r, r.Refusal(node.Invalid, field, value, "one that runs")
		}
	case !filepath.IsAbs(r.Namespace) || len(r.Namespace) > unix.PathMax:
		return r, r.Refusal(node.Invalid, field, value, "an absolute path")
	default:
		if r.Inode, err = netns.Kept(r.Namespace); err != nil {
			return r, r.Refusal(node.Invalid, field, value, "a file that keeps a network namespace")
		}
	}
	if own, err := netns.OwnInode(); err == nil && own == r.Inode {
		return r, r.Refusal(node.Refused, field, value, "in a network namespace of its own, not the node's")
	}
	return r, nil
}

// joiner gives members their places in networks, and takes them back.
type joiner struct {
	builder *builder
	// public is the range of public addresses, which networks' members share.
	public   netip.Prefix
	networks iter.Seq[*resource.Network]
	log      zerolog.Logger
}

// join gives a member a place in n, or changes the place that it has to the request.
func (j joiner) join(ctx context.Context, n *resource.Network, r resource.JoinRequest) (*resource.Member, error) {
	before := n.Members[r.ID]
	if before != nil {
		if err := r.Claim.Check("join member "+r.ID, before.Hash); err != nil {
			return nil, err
		}
	}
	one, err := n.Place(r, func(member string) (netip.Addr, int, error) {
		return resource.ChoosePublic(j.public, j.networks, member)
	})
	if err != nil {
		return nil, err
	}
	if before != nil && (before.Inode != one.Inode || before.Tap != one.Tap) {
		// The old namespace may live on without its process: croft's links in it go.
		if err := j.builder.wiring.Unplug(n, before); err != nil {
			return nil, err
		}
	} else if before != nil && !one.Public.IsValid() {
		if err := j.builder.wiring.UnplugPublic(before); err != nil {
			return nil, err
		}
	}
	was := n.Firewall()
	n.Members[r.ID] = one
	if err := j.builder.ensureMember(ctx, n, one, was); err != nil {
		j.undo(ctx, n, one, before)
		return nil, err
	}
	return one, nil
}

// undo takes back a place that could not be made; the one before stays.
func (j joiner) undo(ctx context.Context, n *resource.Network, one, before *resource.Member) {
	ctx = context.WithoutCancel(ctx)
	if before != nil {
		n.Members[one.ID] = before
	} else {
		if err := j.builder.wiring.Unplug(n, one); err != nil {
			j.log.Error().Str("id", one.ID).Str("step", "undo").Err(err).Msg("cannot remove the links of a member")
		}
		delete(n.Members, one.ID)
	}
	if err := j.builder.ensure(ctx, n); err != nil {
		j.log.Error().Str("id", one.ID).Str("step", "undo").Err(err).Msg("cannot restore a network after a failed join: the next check mends it")
	}
}

// leave takes a member out of n.
func (j joiner) leave(ctx context.Context, n *resource.Network, one *resource.Member) error {
	if err := j.builder.wiring.Unplug(n, one); err != nil {
		return err
	}
	was := n.Firewall()
	delete(n.Members, one.ID)
	// Its links are gone: removing its name and its rules can be tried again.
	return j.builder.ensureMember(ctx, n, nil, was)
}
