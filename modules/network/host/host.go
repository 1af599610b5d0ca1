// Package host is the node's own part of its networks, there from the first network
// on: that the node forwards packets, and the nftables rules of its namespace.
//
// It owns {dir}/node.json, the node's nftables table, and the kernel's two switches
// for forwarding while it has turned them on.
package host

import (
	"cmp"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/network/firewall"
	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// stateFile keeps the state.
const stateFile = "node.json"

// state is on disk for as long as the machine is up.
type state struct {
	Rules firewall.Applied `json:"rules"`
	// Opened4 and Opened6 are that the node didn't forward in that family
	// before this module made it.
	Opened4 bool `json:"opened4"`
	Opened6 bool `json:"opened6"`
}

// The kernel's switches for forwarding.
const (
	forward4 = "net/ipv4/ip_forward"
	forward6 = "net/ipv6/conf/all/forwarding"
)

// Host is the node's own part. It isn't safe for concurrent use.
type Host struct {
	dir   string
	rules firewall.Node
	state state
	// digest is that of the rules. Computing it takes a while, and each change of a
	// member needs it: so it is kept until the rules change.
	digest string
}

// Open reads the state in dir. rules are the desired ones, but for whether they stop
// others from being forwarded.
func Open(dir string, rules firewall.Node, log zerolog.Logger) *Host {
	h := &Host{dir: dir, rules: rules}
	var err error
	if h.state, err = read(dir); err != nil && !os.IsNotExist(err) {
		log.Warn().Str("type", "network").Str("step", "load").Err(err).Msg("cannot read the state of the node's rules: applied anew")
	}
	h.opened(false, false)
	return h
}

// opened notes that the node didn't forward in those families before.
func (h *Host) opened(v4, v6 bool) {
	h.state.Opened4, h.state.Opened6 = h.state.Opened4 || v4, h.state.Opened6 || v6
	if h.rules.Closed4 != h.state.Opened4 || h.rules.Closed6 != h.state.Opened6 {
		h.rules.Closed4, h.rules.Closed6, h.digest = h.state.Opened4, h.state.Opened6, ""
	}
}

func (h *Host) digestOfRules() string {
	if h.digest == "" {
		h.digest = h.rules.Digest()
	}
	return h.digest
}

// Known reports whether the rules were ever applied: before that there is no drift.
func (h *Host) Known() bool { return h.state.Rules.Fingerprint != "" }

// Ensure brings the node's own part to the desired state, and returns the differences.
func (h *Host) Ensure() (drift string, err error) {
	drift, err = h.Check()
	if err != nil || drift == "" {
		return drift, err
	}
	// The rules come first: there is no moment in which the node forwards for all.
	h.opened(isOff(forward4), isOff(forward6))
	if err := h.apply(); err != nil {
		return drift, err
	}
	return drift, cmp.Or(forwardAll(forward4), forwardAll(forward6))
}

// apply applies the rules and records them.
func (h *Host) apply() error {
	fingerprint, err := firewall.ApplyNode("", h.rules)
	if err != nil {
		return err
	}
	h.state.Rules = firewall.Applied{Digest: h.digestOfRules(), Fingerprint: fingerprint}
	raw, err := json.Marshal(h.state)
	if err != nil {
		return node.WithKind(node.Internal, err)
	}
	if err := atomicfile.WriteFile(filepath.Join(h.dir, stateFile), raw, 0o600); err != nil {
		return node.Errorf(node.Internal, "cannot write the state of the node's rules: %w", err)
	}
	return nil
}

// Check says how the node's own part differs from the desired state.
func (h *Host) Check() (drift string, err error) {
	for _, name := range []string{forward4, forward6} {
		if isOff(name) {
			return name + " is off", nil
		}
	}
	h.state.Rules, drift, err = h.state.Rules.Check("", h.digestOfRules())
	return drift, err
}

func read(dir string) (s state, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	return s, err
}

// isOff reports whether one of the kernel's switches is off.
func isOff(name string) bool {
	value, err := os.ReadFile("/proc/sys/" + name)
	return err == nil && string(value) != "1\n"
}

// forwardAll makes the node forward. An interface that has its own addresses
// from router advertisements goes on hearing them: else a node that begins to
// forward would lose its way out.
func forwardAll(name string) error {
	if !isOff(name) {
		return nil
	}
	listeners, err := filepath.Glob("/proc/sys/net/ipv6/conf/*/accept_ra")
	if err != nil {
		return node.WithKind(node.Internal, err)
	}
	for _, file := range listeners {
		if value, err := os.ReadFile(file); err == nil && string(value) == "1\n" {
			if err := os.WriteFile(file, []byte("2"), 0o600); err != nil {
				return node.Errorf(node.Internal, "cannot set %s: %w", file, err)
			}
		}
	}
	return netns.Sysctl(name, "1")
}

// TakeDown stops forwarding where the Host of dir had begun it, and then removes the
// rules of table, which keep others from being forwarded. While another node on this
// machine has networks, forwarding goes on: that node needs it.
func TakeDown(dir, table string) error {
	if err := stopForwarding(dir); err != nil {
		return err
	}
	if err := firewall.RemoveNode("", table); err != nil && node.KindOf(err) != node.NotExist {
		return err
	}
	return nil
}

func stopForwarding(dir string) error {
	links, err := net.Interfaces()
	if err != nil {
		return node.Errorf(node.Internal, "cannot list links: %w", err)
	}
	if slices.ContainsFunc(links, func(l net.Interface) bool { return strings.HasPrefix(l.Name, firewall.AnyNode) }) {
		return nil
	}
	s, err := read(dir)
	if err != nil && !os.IsNotExist(err) {
		return node.Errorf(node.Internal, "cannot read whether the node forwarded before: %w", err)
	}
	for name, opened := range map[string]bool{forward4: s.Opened4, forward6: s.Opened6} {
		if !opened {
			continue
		}
		if err := netns.Sysctl(name, "0"); err != nil {
			return err
		}
	}
	return nil
}
