package network_test

import (
	"testing"

	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
)

func busObject(name, version string) zbus.ObjectID { return bus.Object(name, version) }

func TestTheContract(t *testing.T) {
	conformance.NetworksSuite(t, func(t *testing.T) conformance.NetworksSubject {
		f := newFixture(t)
		return conformance.NetworksSubject{
			Client: f.networks, Taps: f.taps, Process: process, Port: port, Pin: pin, Unpin: unpin,
			Break: func(t *testing.T, tap node.Tap) { run(t, tap.Namespace, "ip link del "+tap.Device) },
			Restart: func(t *testing.T) (conformance.NetworksClient, conformance.TapsClient) {
				t.Helper()
				f.restart()
				return f.networks, f.taps
			},
		}
	})
}
