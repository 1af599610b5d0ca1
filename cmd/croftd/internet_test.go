package main_test

import (
	"testing"

	"github.com/croft-edge/croft/internal/testing/netlab"
	"github.com/croft-edge/croft/internal/testing/nodetest"
)

// internet is a nodetest.Internet.
type internet struct{ *nodetest.Internet }

func newInternet(t *testing.T) *internet {
	t.Helper()
	t.Parallel()
	return &internet{nodetest.NewInternet(t, bins)}
}

func (i *internet) host(name, ip string) *netlab.Namespace {
	i.Helper()
	return i.Host(name, ip)
}

// node connects a new node to the internet and starts it.
func (i *internet) node(name, ip string, args ...string) (*nodetest.Node, *netlab.Namespace) {
	i.Helper()
	return i.PlugNode(name, ip, args...)
}
