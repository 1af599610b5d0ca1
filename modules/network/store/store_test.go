package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/network/resource"
	"github.com/croft-edge/croft/modules/network/store"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
)

func open(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestSaveAndLoad(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if _, err := store.Open(dir); node.KindOf(err) != node.Busy {
		t.Errorf("a second one: %v, must be Busy", err)
	}
	p, err := resource.Read(conformance.NetworkSpec(t, "net1", "10.1.1.0/24", 3001))
	if err != nil {
		t.Fatal(err)
	}
	n := (&resource.Network{State: resource.State{Index: 7, Members: map[string]*resource.Member{}}, Namespace: s.Namespace(p.Spec.ID)}).Renew(p, resource.Endpoints{}, func(string) bool { return false })
	if err := s.Save(n); err != nil {
		t.Fatal(err)
	}
	// A network that can't be read is left alone, and keeps no other from being loaded.
	damaged := filepath.Join(dir, strings.Repeat("0", resource.IDLength))
	if err := os.Mkdir(damaged, 0o700); err != nil {
		t.Fatal(err)
	}
	all, err := s.Load(zerolog.Nop())
	if err != nil || len(all) != 1 || all[n.ID()] == nil {
		t.Fatalf("%v (%v)", all, err)
	}
	if got := all[n.ID()]; got.Index != 7 || got.Namespace != filepath.Join(dir, "netns", n.ID()) || got.HasKey() || got.Members == nil || got.Plan.Gateway.String() != "10.1.1.1" {
		t.Errorf("%+v", got)
	}
	if err := s.Remove(n.ID()); err != nil {
		t.Fatal(err)
	}
	if all, err := s.Load(zerolog.Nop()); err != nil || len(all) != 0 {
		t.Errorf("after Remove: %v (%v)", all, err)
	}
	if _, err := os.Stat(damaged); err != nil {
		t.Error(err)
	}
}

// The state as croft wrote it before there was this package.
func TestStateOfEarlierVersions(t *testing.T) {
	spec := conformance.NetworkSpec(t, "net1", "10.1.1.0/24", 3001)
	dir := t.TempDir()
	s := open(t, dir)
	p, err := resource.Read(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Save((&resource.Network{}).Renew(p, nil, nil)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, spec.ID, "state.json")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	end := strings.Index(string(raw), `,"index":`)
	if !strings.HasPrefix(string(raw), `{"spec":{`) || end < 0 {
		t.Fatalf("the state is %s", raw)
	}
	old := string(raw[:end]) + `,"index":3,"endpoints":{"k":"192.0.2.1:5"},"members":{"5-1":{"id":"5-1","hash":"h","name":"web","ips":["10.1.1.2"],"index":4,"tap":false,` +
		`"namespace":"/run/x","pid":0,"inode":9,"public":"2001:db8::1","public_index":2}},"rules":{"digest":"d","fingerprint":"f"}}`
	if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := s.Load(zerolog.Nop())
	if err != nil || all[spec.ID] == nil {
		t.Fatalf("%v (%v)", all, err)
	}
	n := all[spec.ID]
	one := n.Members["5-1"]
	if n.Index != 3 || n.Endpoints["k"].String() != "192.0.2.1:5" || n.Rules.Digest != "d" || n.Rules.Fingerprint != "f" || one == nil || one.Port() != "m4" ||
		one.IPs[0].String() != "10.1.1.2" || one.Namespace != "/run/x" || one.Inode != 9 || one.Public.String() != "2001:db8::1" || one.PublicIndex != 2 {
		t.Errorf("%+v, member %+v", n, one)
	}
	if err := s.Save(n); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(file); err != nil || string(again) != old {
		t.Errorf("it is written as\n%s, was\n%s (%v)", again, old, err)
	}
}
