package nodetest

import (
	"testing"

	"github.com/croft-edge/croft/internal/testing/netlab"
)

// Internet is a small internet of namespaces: an explorer and its hosts, in 203.0.113.0/24. It is
// isolated from the machine's own network.
type Internet struct {
	*World
	Lab *netlab.Lab
	Hub *netlab.Namespace
}

// Public is the range of an Internet's hosts. Nodes consider it public.
const Public = "203.0.113.0/24"

// NewInternet makes an internet with an explorer at 203.0.113.1. It needs root.
func NewInternet(tb testing.TB, b Binaries, explorer ...string) *Internet {
	tb.Helper()
	lab := netlab.New(tb) // before the world, so that it outlives the world
	i := &Internet{Lab: lab, Hub: lab.Namespace("hub"), World: New(tb, b)}
	i.Hub.Bridge("br0")
	i.Hub.Addr("br0", "203.0.113.1/24")
	i.Namespace, i.ListenIP = i.Hub.Path(), "203.0.113.1"
	i.StartExplorer(explorer...)
	return i
}

// Host connects a new host to the internet.
func (i *Internet) Host(name, ip string) *netlab.Namespace {
	i.Helper()
	h := i.Lab.Namespace(name)
	i.Lab.Veth(h, "eth0", i.Hub, "to-"+name)
	i.Hub.Attach("to-"+name, "br0")
	h.Addr("eth0", ip+"/24")
	h.Route("0.0.0.0/0", "203.0.113.1")
	return h
}

// Plug connects a new node to the internet, without starting it.
func (i *Internet) Plug(name, ip string, args ...string) (*Node, *netlab.Namespace) {
	i.Helper()
	h := i.Host(name, ip)
	before := i.Namespace
	i.Namespace = h.Path()
	n := i.NewNode(name, append([]string{"--allow-private", Public}, args...)...)
	i.Namespace = before
	return n, h
}

// PlugNode connects a new node, starts it, and waits until the explorer knows it.
func (i *Internet) PlugNode(name, ip string, args ...string) (*Node, *netlab.Namespace) {
	i.Helper()
	n, h := i.Plug(name, ip, args...)
	n.Start()
	n.WaitReady()
	n.WaitRegistered()
	return n, h
}
