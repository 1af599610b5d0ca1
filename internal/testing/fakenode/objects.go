package fakenode

import (
	"cmp"
	"crypto/ecdh"
	"encoding/base64"
	"maps"
	"net/netip"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// cloned is a copy of a map, never nil.
func cloned[K comparable, V any](m map[K]V) map[K]V {
	out := make(map[K]V, len(m))
	maps.Copy(out, m)
	return out
}

// sorted are the keys of a map in order.
func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// drop removes an object. NotExist when there is none.
func drop[V any](m map[string]V, id, what string) error {
	if _, ok := m[id]; !ok {
		return node.Errorf(node.NotExist, "cannot %s %s: there is none", what, id)
	}
	delete(m, id)
	return nil
}

// The forms of texts in specs. They are compiled once: tests of provision make thousands of calls.
var (
	objectName    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$`)
	networkID     = regexp.MustCompile(`^[0-9a-f]{64}$`)
	memberName    = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)?$`)
	hostName      = regexp.MustCompile(`^([a-z0-9-]+\.)+[a-z]+$`) // of a peer's endpoint
	containerHost = regexp.MustCompile(`^[A-Za-z0-9.-]{0,253}$`)
	userID        = regexp.MustCompile(`^[A-Za-z0-9]{1,64}$`)
	imageLabel    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$`)
	reference     = regexp.MustCompile(`^docker://[a-z0-9.:-]+(/[a-z0-9._-]+)*((:[A-Za-z0-9_.-]+)?|@sha256:[0-9a-f]{64})$`)
)

// goodName reports whether a text may name an object of a module.
func goodName(name string) bool {
	return objectName.MatchString(name)
}

// checkName returns Invalid when an object of a module can't have that name. what
// names the operation, such as "find filesystem".
func checkName(what, name string) error {
	if goodName(name) {
		return nil
	}
	return node.Errorf(node.Invalid, "cannot %s %q: a name must be 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-', and not begin with '.' or '-'", what, clip.Text(name, 80))
}

// bytes writes a size in the largest unit of 1024 of which it has at least one,
// rounded down.
func bytes(n uint64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	at := 0
	for ; n >= 1024 && at < 4; at++ {
		n /= 1024
	}
	return strconv.FormatUint(n, 10) + " " + units[at]
}

// checkNetwork returns an error for the first field of a spec that can't be accepted.
func checkNetwork(spec node.NetworkSpec) error {
	wrong := func(kind node.Kind, field, value, allowed string) error {
		return node.Errorf(kind, "cannot make network %q: %s is %q, must be %s", clip.Text(spec.Name, 64), field, clip.Text(value, 64), allowed)
	}
	if !networkID.MatchString(spec.ID) {
		return wrong(node.Invalid, "ID", spec.ID, "64 hex digits")
	}
	if _, err := workload.ParseID(spec.Label); err != nil {
		return wrong(node.Invalid, "Label", spec.Label, "a reservation's ID")
	}
	if err := (node.Claim{Hash: spec.Hash}).Valid("make network " + spec.ID); err != nil {
		return err
	}
	whole, err := netip.ParsePrefix(spec.IPRange)
	if err != nil || !whole.Addr().Is4() || whole != whole.Masked() || whole.Bits() != 16 || !whole.Addr().IsPrivate() {
		return wrong(node.Invalid, "IPRange", spec.IPRange, "a private IPv4 range of /16")
	}
	part, err := netip.ParsePrefix(spec.Subnet)
	if err != nil || part != part.Masked() || !whole.Contains(part.Addr()) || part.Bits() <= 16 || part.Bits() > 30 {
		return wrong(node.Invalid, "Subnet", spec.Subnet, "a part of "+spec.IPRange+", from /17 to /30")
	}
	if spec.ListenPort < 1024 {
		return wrong(node.Invalid, "ListenPort", strconv.Itoa(int(spec.ListenPort)), "a port from 1024 to 65535")
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(spec.PrivateKey)
	private, keyErr := ecdh.X25519().NewPrivateKey(raw)
	if err != nil || keyErr != nil {
		return node.Errorf(node.Invalid, "cannot make network %q: the private key must be 32 bytes in standard base64", clip.Text(spec.Name, 64))
	}
	if base64.StdEncoding.EncodeToString(private.PublicKey().Bytes()) != spec.PublicKey {
		return wrong(node.Invalid, "wg_public_key", spec.PublicKey, "the public key of wg_private_key")
	}
	for _, p := range spec.Peers {
		if kind, field, value, allowed := checkPeer(p); kind != "" {
			return wrong(kind, field, value, allowed)
		}
	}
	return nil
}

// checkPeer returns the first field of a peer that can't be accepted.
func checkPeer(p workload.WireGuardPeer) (kind node.Kind, field, value, allowed string) {
	if raw, err := base64.StdEncoding.Strict().DecodeString(p.PublicKey); err != nil || len(raw) != 32 {
		return node.Invalid, "wg_public_key of a peer", p.PublicKey, "32 bytes in standard base64"
	}
	for _, text := range p.AllowedIPs {
		if a, err := netip.ParsePrefix(text); err != nil || a != a.Masked() {
			return node.Invalid, "allowed_ips of a peer", text, "an address range such as 10.1.2.0/24"
		}
	}
	if p.Endpoint == "" {
		return "", "", "", ""
	}
	if at, err := netip.ParseAddrPort(p.Endpoint); err == nil {
		if ip := at.Addr(); ip.IsPrivate() || ip.IsLoopback() || !ip.IsGlobalUnicast() {
			return node.Refused, "endpoint of a peer", p.Endpoint, "an address outside the node and its network"
		}
		return "", "", "", ""
	}
	host, port, _ := strings.Cut(p.Endpoint, ":")
	if _, err := strconv.ParseUint(port, 10, 16); !hostName.MatchString(host) || err != nil {
		return node.Invalid, "endpoint of a peer", p.Endpoint, "an address or a name with a port"
	}
	return "", "", "", ""
}

// The largest container: cores, and bytes of memory.
const (
	mostCPU    = 4096
	mostMemory = 1 << 50
)

// checkContainer returns Invalid for the first field of a spec that can't be accepted.
func checkContainer(spec node.ContainerSpec) error {
	if err := checkName("make container", spec.ID); err != nil {
		return err
	}
	wrong := func(field, value, allowed string) error {
		return node.Errorf(node.Invalid, "cannot make container %s: %s is %q, must be %s", spec.ID, field, clip.Text(value, 100), allowed)
	}
	switch {
	case !userID.MatchString(spec.User):
		return wrong("User", spec.User, "a user's ID")
	case spec.CPU == 0 || spec.CPU > mostCPU:
		return wrong("CPU", "", "from 1 to 4096 cores")
	case spec.Memory == 0 || spec.Memory > mostMemory:
		return wrong("Memory", "", "from 1 byte to 1 PiB")
	case !absolute(spec.Layer):
		return wrong("Layer", spec.Layer, "an absolute path")
	case !containerHost.MatchString(spec.Hostname):
		return wrong("Hostname", spec.Hostname, "a host name")
	}
	for _, dns := range spec.DNS {
		if _, err := netip.ParseAddr(dns); err != nil {
			return wrong("DNS", dns, "an address")
		}
	}
	for _, env := range []node.Env{spec.Env, spec.Secrets} {
		for name, value := range env {
			if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
				return wrong("Env", name, "names without = and NUL")
			}
		}
	}
	for _, m := range spec.Mounts {
		if !absolute(m.Target) {
			return wrong("target of a mount", m.Target, "an absolute path")
		}
		if !absolute(m.Source) {
			return wrong("source of a mount", m.Source, "an absolute path")
		}
	}
	return node.Claim{Hash: spec.Hash}.Valid("make container " + spec.ID)
}

func absolute(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && !strings.Contains(p, "\x00")
}

// same reports whether two specs ask for equal containers, whoever adopts them.
func same(a, b node.ContainerSpec) bool {
	plain := func(s node.ContainerSpec) node.ContainerSpec {
		s.Hash, s.AdoptUnlabelled = "", false
		s.Entrypoint, s.DNS = append([]string{}, s.Entrypoint...), append([]string{}, s.DNS...)
		s.Terminal, s.Names = append([]string{}, s.Terminal...), append([]string{}, s.Names...)
		s.Mounts = append([]node.MountSpec{}, s.Mounts...)
		s.Env, s.Secrets = cloned(s.Env), cloned(s.Secrets)
		return s
	}
	return reflect.DeepEqual(plain(a), plain(b))
}
