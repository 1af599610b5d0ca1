package network_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/node/conformance"
)

// TestTheKernelIsTheBackendWhereItCan holds that a tunnel is the kernel's WireGuard where that works, and that the node says why not elsewhere.
func TestTheKernelIsTheBackendWhereItCan(t *testing.T) {
	kernel, why := wireguard.Detect(t.Context())
	f := newFixture(t)
	info, err := f.networks.Create(t.Context(), conformance.NetworkSpec(t, "net1", "10.1.1.0/24", port(t)))
	if err != nil {
		t.Fatal(err)
	}
	backend, kind := wireguard.UserspaceName, "\n    tun "
	if kernel {
		backend, kind = wireguard.KernelName, "\n    wireguard "
	}
	status, err := f.networks.Status(t.Context())
	if err != nil || status.Backend != backend || status.Why != why || info.Backend != backend {
		t.Errorf("the node's tunnels are of %q because %q, this one of %q (%v), want %q, %q", status.Backend, status.Why, info.Backend, err, backend, why)
	}
	out, err := exec.Command("nsenter", "--net="+info.Namespace, "ip", "-d", "link", "show", "dev", "wg0").CombinedOutput()
	if err != nil || !strings.Contains(string(out), kind) {
		t.Errorf("the tunnel's link is %s (%v), want %q", out, err, kind)
	}
	t.Logf("the backend is %s; %s", status.Backend, status.Why)
}
