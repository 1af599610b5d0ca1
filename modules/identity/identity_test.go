package identity

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/threefoldtech/zbus"
	"go.uber.org/goleak"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/bus/broker"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/sign"
)

// onBus is m's key through its stub.
func onBus(t *testing.T, m *Module) *stubs.IdentityManagerStub {
	t.Helper()
	return stubs.NewIdentityManagerStub(conformance.OnBus(t, node.IdentityModule, bus.Object(node.IdentityObject, node.IdentityVersion), m.Manager()))
}

// versionOnBus is m's version through its stub.
func versionOnBus(t *testing.T, m *Module) *stubs.VersionMonitorStub {
	t.Helper()
	return stubs.NewVersionMonitorStub(conformance.OnBus(t, node.IdentityModule, bus.Object(node.VersionObject, node.VersionObjectVersion), m.Monitor()))
}

func opened(t *testing.T, dir string) *Module {
	t.Helper()
	m, err := Open(Config{Dir: dir, Version: node.Version{Version: "1.2.3", Commit: "abc"}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestIdentityConforms(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	conformance.IdentitySuite(t, func(t *testing.T) conformance.IdentitySubject {
		dir := filepath.Join(t.TempDir(), "identity")
		m := opened(t, dir)
		return conformance.IdentitySubject{
			Client: onBus(t, m), Version: versionOnBus(t, m), Running: node.Version{Version: "1.2.3", Commit: "abc"},
			Restart: func(t *testing.T) conformance.IdentityClient { return onBus(t, opened(t, dir)) },
		}
	})
}

func TestSeedFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	m := opened(t, dir)
	info, err := os.Stat(filepath.Join(dir, "seed"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o400 {
		t.Errorf("the mode is %04o, want 0400", info.Mode().Perm())
	}
	if info, err = os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder's mode is %v (%v), want 0700", info.Mode(), err)
	}
	seed, err := sign.ReadSeedFile(filepath.Join(dir, "seed"))
	if err != nil || seed.ID() != m.NodeID() {
		t.Errorf("the file holds %s (%v), the node is %s", seed.ID(), err, m.NodeID())
	}
}

// TestBadSeeds wants an error and the file as it was, never a new key.
func TestBadSeeds(t *testing.T) {
	good := append([]byte(`"1.0.0"`), bytes.Repeat([]byte{7}, 32)...)
	cases := []struct {
		name    string
		content []byte
		mode    os.FileMode
		text    string
	}{
		{"empty", nil, 0o400, "0 bytes"},
		{"short", good[:20], 0o400, "13 bytes"},
		{"long", append(good[:len(good):len(good)], 1), 0o400, "33 bytes"},
		{"a later version", bytes.Replace(good, []byte("1.0.0"), []byte("2.0.0"), 1), 0o400, "2.0.0"},
		{"group may read", good, 0o440, "0440"},
		{"others may read", good, 0o404, "0404"},
		{"others may write", good, 0o602, "0602"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "seed")
			if err := errors.Join(os.WriteFile(path, c.content, 0o600), os.Chmod(path, c.mode)); err != nil {
				t.Fatal(err)
			}
			_, err := Open(Config{Dir: dir})
			if !errors.Is(err, node.Refused) || !strings.Contains(err.Error(), c.text) || !strings.HasPrefix(err.Error(), "cannot ") {
				t.Errorf("the error is %v (%s), want it to say %q", err, node.KindOf(err), c.text)
			}
			after, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(after, c.content) {
				t.Errorf("the file is now %q (%v)", after, err)
			}
		})
	}
}

func TestSeedOfBeforeThereWasAVersion(t *testing.T) {
	dir := t.TempDir()
	path, raw := filepath.Join(dir, "seed"), bytes.Repeat([]byte{9}, 32)
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	want, err := sign.FromSeed(raw)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if id := opened(t, dir).NodeID(); id != want.ID() {
			t.Errorf("the node is %s, want %s", id, want.ID())
		}
		content, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(content, append([]byte(`"1.0.0"`), raw...)) {
			t.Errorf("the file is now %q (%v)", content, err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("the mode is %v (%v), want 0400", info.Mode(), err)
	}
}

// TestOpenedAtOnce wants concurrent calls of Open to get the same key.
func TestOpenedAtOnce(t *testing.T) {
	dir := t.TempDir()
	ids := make([]string, 8)
	var group sync.WaitGroup
	for i := range ids {
		group.Go(func() {
			m, err := Open(Config{Dir: dir})
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = m.NodeID()
		})
	}
	group.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("the node is %s and %s", ids[0], id)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) != 0 {
		t.Errorf("there is %q (%v)", left, err)
	}
}

func TestOpenWithoutDir(t *testing.T) {
	_, err := Open(Config{})
	if !errors.Is(err, node.Invalid) || !strings.Contains(err.Error(), "Dir") {
		t.Errorf("the error is %v", err)
	}
}

func TestTooLong(t *testing.T) {
	m := opened(t, t.TempDir()).Manager()
	long := make([]byte, maxMessage+1)
	_, err := m.Sign(long)
	_, err2 := m.Encrypt(long)
	_, err3 := m.Decrypt(long)
	for _, err := range []error{err, err2, err3} {
		if !errors.Is(err, node.Invalid) {
			t.Errorf("the error is %v, want kind Invalid", err)
		}
	}
}

// TestTheVersionIsToldOnce wants each reader to get it once, and again only when asked for.
func TestTheVersionIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		again := make(chan struct{})
		m, err := Open(Config{Dir: t.TempDir(), Version: node.Version{Version: "v1.2.3"}, Again: func(context.Context, string) <-chan struct{} { return again }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		rich, seeds := m.Monitor().Version(ctx), m.SeedMonitor().Version(ctx)
		for range 2 {
			if v := <-rich; v.Version != "v1.2.3" {
				t.Errorf("the version is %+v", v)
			}
			if v := <-seeds; v.Major != 1 || v.Minor != 2 || v.Patch != 3 {
				t.Errorf("the version is %+v", v)
			}
			select {
			case v := <-rich:
				t.Errorf("%+v came unasked", v)
			case v := <-seeds:
				t.Errorf("%+v came unasked", v)
			case <-time.After(time.Hour):
			}
			again <- struct{}{}
			again <- struct{}{}
		}
		cancel()
		for range rich {
		}
		for range seeds {
		}
	})
}

func TestSeedVersion(t *testing.T) {
	text := func(s string) node.SeedPreRelease { return node.SeedPreRelease{VersionStr: s} }
	number := func(n uint64) node.SeedPreRelease { return node.SeedPreRelease{VersionNum: n, IsNum: true} }
	pre := func(all ...node.SeedPreRelease) []node.SeedPreRelease { return all }
	for in, want := range map[string]node.SeedVersion{
		"1.2.3":                     {Major: 1, Minor: 2, Patch: 3},
		"v0.2.0":                    {Minor: 2},
		"v1.2":                      {Major: 1, Minor: 2},
		"v1.2.3-4-gabc-dirty":       {Major: 1, Minor: 2, Patch: 3, Pre: pre(text("4-gabc-dirty"))},
		"v1.2.3-rc.4+build.05":      {Major: 1, Minor: 2, Patch: 3, Pre: pre(text("rc"), number(4)), Build: []string{"build", "05"}},
		"v1.99999999999999999999.0": {Major: 1, Minor: math.MaxUint64},
		"dev":                       {Pre: pre(text("dev"))},
		"91fff05-dirty":             {Pre: pre(text("91fff05-dirty"))},
		"1234567":                   {Pre: pre(text("1234567"))},
		"1.2.3.4":                   {Pre: pre(text("1234"))},
		"":                          {Pre: pre(text("unknown"))},
	} {
		if got := seedVersion(in); !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %+v, want %+v", in, got, want)
		}
	}
}

// TestEachReaderHearsTheVersionOnce: bare clients of the seed's time at a node's broker,
// one there from the start, one that comes later.
func TestEachReaderHearsTheVersionOnce(t *testing.T) {
	b := bus.NewInProcess()
	server, err := bus.NewServer(b, node.IdentityModule, bus.Options{})
	if err == nil {
		err = bus.Register(server, bus.Object(node.VersionObject, node.SeedVersionObjectVersion), opened(t, t.TempDir()).SeedMonitor())
	}
	if err != nil {
		t.Fatal(err)
	}
	url := "unix://" + filepath.Join(t.TempDir(), "bus.sock")
	door, err := broker.Listen(b, url, bus.Options{}.Log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait(); _ = b.Close() })
	running.Go(func() { _ = door.Run(ctx) })
	early := bareVersions(t, url)
	running.Go(func() { _ = server.Run(ctx) })
	wantVersion(t, early)
	late := bareVersions(t, url)
	wantVersion(t, late)
	select {
	case <-early:
		t.Error("the first reader heard it twice")
	case <-late:
		t.Error("the second reader heard it twice")
	case <-time.After(5 * time.Second):
	}
}

func bareVersions(t *testing.T, url string) <-chan zbus.Event {
	t.Helper()
	client, err := zbus.NewRedisClient(url)
	if err != nil {
		t.Fatal(err)
	}
	events, err := client.Stream(t.Context(), "identityd", zbus.ObjectIDFromString("monitor@0.0.1"), "Version")
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// wantVersion wants 1.2.3 as a client of the seed's time declares versions.
func wantVersion(t *testing.T, events <-chan zbus.Event) {
	t.Helper()
	var v struct {
		Major, Minor, Patch uint64
		Pre                 []struct {
			VersionStr string
			VersionNum uint64
			IsNum      bool
		}
		Build []string
	}
	select {
	case event := <-events:
		if err := event.Unmarshal(&v); err != nil || v.Major != 1 || v.Minor != 2 || v.Patch != 3 || v.Pre != nil || v.Build != nil {
			t.Errorf("it is %+v, %v", v, err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("nothing came")
	}
}
