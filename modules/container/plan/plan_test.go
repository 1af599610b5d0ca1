package plan

import (
	"errors"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
)

// The fingerprints of containers that run on nodes: if they changed, an
// upgrade would make every container anew.
func TestFingerprintsAreStable(t *testing.T) {
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

func TestCheckNamesTheWrongField(t *testing.T) {
	t.Parallel()
	good := node.ContainerSpec{ID: "1-1", User: "ada", Layer: "/layer", Hostname: "h", CPU: 1, Memory: 64 << 20}
	must(t, Check(good))
	for want, spoil := range map[string]func(*node.ContainerSpec){
		"ID":         func(s *node.ContainerSpec) { s.ID = "../x" },
		"User":       func(s *node.ContainerSpec) { s.User = "" },
		"CPU":        func(s *node.ContainerSpec) { s.CPU = 0 },
		"Memory":     func(s *node.ContainerSpec) { s.Memory = 0 },
		"Layer":      func(s *node.ContainerSpec) { s.Layer = "/a/../b" },
		"Hostname":   func(s *node.ContainerSpec) { s.Hostname = "a b" },
		"DNS":        func(s *node.ContainerSpec) { s.DNS = []string{"name"} },
		"Terminal":   func(s *node.ContainerSpec) { s.Interactive = true },
		"Names":      func(s *node.ContainerSpec) { s.Names = []string{"a,b"} },
		"Env":        func(s *node.ContainerSpec) { s.Env = node.Env{"A=B": "c"} },
		"NUL":        func(s *node.ContainerSpec) { s.Env = node.Env{"A": "c\x00"} },
		"Entrypoint": func(s *node.ContainerSpec) { s.Entrypoint = []string{"a\x00"} },
		"target":     func(s *node.ContainerSpec) { s.Mounts = []node.MountSpec{{Volume: "1-2", Source: "/v", Target: "x"}} },
		"source":     func(s *node.ContainerSpec) { s.Mounts = []node.MountSpec{{Volume: "1-2", Source: "v", Target: "/x"}} },
		"volume":     func(s *node.ContainerSpec) { s.Mounts = []node.MountSpec{{Volume: "/", Source: "/v", Target: "/x"}} },
		"twice": func(s *node.ContainerSpec) {
			s.Mounts = []node.MountSpec{{Volume: "1-2", Source: "/v", Target: "/x"}, {Volume: "1-3", Source: "/w", Target: "/x/"}}
		},
	} {
		s := good
		spoil(&s)
		if err := Check(s); !errors.Is(err, node.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want an Invalid one about %q", err, want)
		}
	}
}

// An upgrade mustn't make containers anew, and a fingerprint mustn't reveal a secret.
func TestFingerprintCoversRestrictions(t *testing.T) {
	s := node.ContainerSpec{ID: "1-1"}
	plain, err := fingerprint(s, "sha256:x", "")
	must(t, err)
	for name, change := range map[string]func(*node.ContainerSpec){
		"read-only": func(s *node.ContainerSpec) { s.ReadOnly = true }, "non-root": func(s *node.ContainerSpec) { s.NonRoot = true },
		"a secret": func(s *node.ContainerSpec) { s.Secrets = node.Env{"A": "1"} },
	} {
		other := s
		change(&other)
		if got, err := fingerprint(other, "sha256:x", ""); err != nil || got == plain {
			t.Errorf("%s: the print is the same, %v", name, err)
		}
	}
	one, other := s, s
	one.Secrets, other.Secrets = node.Env{"A": "1"}, node.Env{"A": "2"}
	a, _ := fingerprint(one, "sha256:x", "")
	b, _ := fingerprint(other, "sha256:x", "")
	if a != b {
		t.Error("a print tells what a secret says")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
