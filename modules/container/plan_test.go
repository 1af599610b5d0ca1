package container

import (
	"testing"

	"github.com/croft-edge/croft/pkg/node"
)

// The fingerprints of containers that run on nodes: were they to change, an
// upgrade would make every container anew.
func TestFingerprintsStay(t *testing.T) {
	plain := node.ContainerSpec{ID: "12-1", User: "ada", Layer: "/pools/12-1.layer", Hostname: "web", CPU: 1, Memory: 256 << 20}
	full := node.ContainerSpec{
		ID: "12-2", User: "ada", Entrypoint: []string{"/bin/serve"}, Env: node.Env{"A": "1"},
		Mounts: []node.MountSpec{{Volume: "7-1", Source: "/pools/7-1", Target: "/data"}},
		Layer:  "/pools/12-2.layer", Hostname: "web", DNS: []string{"10.1.2.1"}, CPU: 2, Memory: 256 << 20,
		Interactive: true, Terminal: []string{"10.1.2.3"}, Names: []string{"web"},
	}
	bare := plain
	bare.NoCapabilities = true
	empty := plain
	empty.Entrypoint, empty.Env, empty.Mounts, empty.DNS, empty.Terminal = []string{}, node.Env{}, []node.MountSpec{}, []string{}, []string{}
	const plainPrint = "55ca1c108057ea586b30e4ec10d316f81aadf498b12232c203dd39ed2ff51c85"
	for name, c := range map[string]struct {
		spec node.ContainerSpec
		init string
		want string
	}{
		"plain":                {plain, "", plainPrint},
		"empty instead of nil": {empty, "", plainPrint},
		"full":                 {full, "/opt/croft/init", "16ced6be764dffd011780d3265e0bba0404daf65b91eabfd6caee4e42450cef3"},
		"no capabilities":      {bare, "", "dd2935c3a0fa1c931ac24920b2db361085c989335d581f8a21b0dd306a3b163a"},
	} {
		got, err := fingerprint(c.spec, "sha256:1", c.init)
		if err != nil || got != c.want {
			t.Errorf("%s: the fingerprint is %s (%v), want %s", name, got, err, c.want)
		}
	}
}
