package main_test

import (
	"testing"

	"github.com/croft-edge/croft/cmd/croftd/nodetest"
	"github.com/croft-edge/croft/modules/network/netlab"
)

// internet is a small internet of namespaces: an explorer and the hosts that
// are plugged into it, in 203.0.113.0/24 and 2001:db8:113::/64. Nothing of the
// machine's own network is in it.
type internet struct {
	*nodetest.World
	lab *netlab.Lab
	hub *netlab.Namespace
}

// public lets nodes take the addresses of documents for public ones.
const public = "203.0.113.0/24"

func newInternet(t *testing.T) *internet {
	t.Helper()
	t.Parallel()
	lab := netlab.New(t)
	i := &internet{lab: lab, hub: lab.Namespace("hub"), World: nodetest.New(t, bins)}
	i.hub.Bridge("br0")
	i.hub.Addr("br0", "203.0.113.1/24")
	i.Namespace, i.ListenIP = i.hub.Path(), "203.0.113.1"
	i.StartExplorer()
	return i
}

// host plugs a new host into the internet.
func (i *internet) host(name, ip string) *netlab.Namespace {
	i.Helper()
	h := i.lab.Namespace(name)
	i.lab.Veth(h, "eth0", i.hub, "to-"+name)
	i.hub.Attach("to-"+name, "br0")
	h.Addr("eth0", ip+"/24")
	h.Route("0.0.0.0/0", "203.0.113.1")
	return h
}

// node plugs a new node into the internet and starts it.
func (i *internet) node(name, ip string, args ...string) (*nodetest.Node, *netlab.Namespace) {
	i.Helper()
	h := i.host(name, ip)
	before := i.Namespace
	i.Namespace = h.Path()
	n := i.NewNode(name, append([]string{"--allow-private", public}, args...)...)
	i.Namespace = before
	n.Start()
	n.WaitReady()
	n.WaitRegistered()
	return n, h
}
