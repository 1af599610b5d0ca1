package mirrors_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/croft-edge/croft/cmd/croftd/internal/mirrors"
	"github.com/croft-edge/croft/internal/testing/s3test"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/provision/persist"
	"github.com/croft-edge/croft/provision/persist/fs"
	"github.com/croft-edge/croft/provision/persist/mirror"
	"github.com/croft-edge/croft/provision/persist/secret"
	"github.com/croft-edge/croft/provision/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A node with a mirror in a folder and one on an S3 server, whose keys come later: the folder has the store at once, the server when its keys are there, and
// each tells when it falls behind and when it isn't behind any more. A store of another birth leaves them as they are until they are given up.
func TestMirrorsOfANode(t *testing.T) {
	server, root := s3test.New(t), t.TempDir()
	key, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	folder := "fs://" + filepath.Join(root, "mirror")
	bucket := "s3://" + server.Address + "/" + s3test.Bucket + "?path-style=true&tls=false"
	var places []mirrors.Place
	for _, text := range []string{folder, bucket} {
		p, err := mirrors.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, p)
	}
	keys := filepath.Join(root, "secrets")
	if err := os.Mkdir(keys, 0o700); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, places: places, key: key, keys: keys}

	first := w.open(filepath.Join(root, "store"))
	w.state("the folder is complete", 0, func(s mirrors.Status) bool { return s.Complete && s.Names == 0 && s.Latency > 0 })
	w.state("the server's keys are missing", 1, func(s mirrors.Status) bool { return strings.Contains(s.Error, "s3-access") && !s.Up })
	for name, text := range s3test.Known() {
		if err := os.WriteFile(filepath.Join(keys, name), []byte(text), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	w.set.Check() // as soon as the operator likes
	w.state("the server is complete", 1, func(s mirrors.Status) bool { return s.Complete && s.Names == 0 && s.Error == "" })
	instance := w.set.Status()[0].Instance
	first()

	other := w.open(filepath.Join(root, "other"))
	for at := range places {
		w.state("another store's mirror is held", at, func(s mirrors.Status) bool { return s.Held != "" })
	}
	if err := w.set.Replace(t.Context(), "fs-no"); node.KindOf(err) != node.NotExist || !strings.Contains(err.Error(), instance) {
		t.Errorf("a mirror that there isn't: %v", err)
	}
	if err := w.set.Replace(t.Context(), instance); err != nil {
		t.Fatal(err)
	}
	w.state("it is this store's", 0, func(s mirrors.Status) bool { return s.Held == "" && s.Complete && s.Names == 0 })
	w.state("the other one is still held", 1, func(s mirrors.Status) bool { return s.Held != "" })
	other()

	for _, from := range []string{instance, folder} {
		p, name, closed, err := mirrors.Open(from, places, persist.MachineID(key.ID()), w.secrets())
		if err != nil || name != instance || p.Instances()[0] != instance {
			t.Errorf("%s: %s, %v", from, name, err)
			continue
		}
		closed()
	}
	if _, _, _, err := mirrors.Open("fs-no", places, persist.MachineID(key.ID()), w.secrets()); node.KindOf(err) != node.NotExist || !strings.Contains(err.Error(), instance) {
		t.Errorf("a mirror that the settings don't have: %v", err)
	}
}

// What is wrong with a mirror never stops the node: the same place is used once, and a mirror that can't be made is down, and says why.
func TestMirrorsThatCannotBeMade(t *testing.T) {
	key, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	var places []mirrors.Place
	for _, text := range []string{"fs:///backup/a", "fs:///backup/a", "s3://host.example/bucket", "s3://host.example/bucket/" + key.ID() + "?region=us-east-1&keys=other"} {
		p, err := mirrors.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, p)
	}
	birth := func() (string, []string) { return "", nil }
	var told []mirrors.Status
	config := mirrors.Config{Places: places, Key: key, Store: t.TempDir(), Birth: birth, Secrets: secret.Folder(t.TempDir()), Changed: func(_, after mirrors.Status) { told = append(told, after) }}
	s := mirrors.New(config)
	if all := s.Status(); len(all) != 2 || all[0].Instance == all[1].Instance || len(told) > 0 {
		t.Errorf("of places that are named twice it makes %+v, and tells %+v", all, told)
	}

	for what, spoil := range map[string]func(*mirrors.Config){
		"no key":                func(c *mirrors.Config) { c.Key, c.Fault = sign.KeyPair{}, errors.New("the key can't be read") },
		"a wrong recovery key":  func(c *mirrors.Config) { c.Recovery = "nonsense" },
		"nothing has the birth": func(c *mirrors.Config) { c.Birth = nil },
		"nothing has S3's keys": func(c *mirrors.Config) { c.Secrets, c.Places = nil, places[2:3] },
		"a place isn't one any more": func(c *mirrors.Config) {
			c.Places = []mirrors.Place{{Text: "fs:///backup/..", FS: &fs.Settings{Folder: "/backup/.."}}}
		},
	} {
		told = nil
		c := config
		c.Places = []mirrors.Place{places[0], places[2]}
		spoil(&c)
		s := mirrors.New(c)
		all := s.Status()
		if len(all) != len(c.Places) || len(told) != len(all) {
			t.Errorf("%s: %+v, and %+v is told", what, all, told)
		}
		for _, is := range all {
			if is.Up || is.Complete || is.Error == "" || is.Behind != is.Error || is.Since.IsZero() || is.Instance == "" || is.Place == "" {
				t.Errorf("%s: %+v", what, is)
			}
			if err := s.Replace(t.Context(), is.Instance); node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), is.Error) {
				t.Errorf("%s: it is replaced: %v", what, err)
			}
		}
		s.Mark("1-1")
		s.Check()
	}
}

// A mirror is behind when it fails, and when a change has waited for too long although nothing fails.
func TestBehind(t *testing.T) {
	now := time.Now()
	for what, c := range map[string]struct {
		is   mirror.Status
		want string
	}{
		"whole":         {mirror.Status{}, ""},
		"a short while": {mirror.Status{Names: 5, Oldest: now.Add(-mirrors.BehindAfter + time.Second)}, ""},
		"too long":      {mirror.Status{Names: 5, Oldest: now.Add(-mirrors.BehindAfter - time.Second)}, "5 files"},
		"it fails":      {mirror.Status{Error: "cannot put", Names: 5, Oldest: now}, "cannot put"},
	} {
		if got := mirrors.Behind(c.is, now); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

// Without mirrors there is nothing to do, until the node stops.
func TestNoMirrors(t *testing.T) {
	s := mirrors.New(mirrors.Config{})
	s.Mark("1-1")
	s.Check()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	select {
	case <-ended:
		t.Fatal("it ends by itself, and the node with it")
	case <-time.After(50 * time.Millisecond):
	}
	cancel()
	if err := <-ended; err != nil || len(s.Status()) > 0 {
		t.Error(err)
	}
}

// world is a node with its mirrors.
type world struct {
	t      *testing.T
	places []mirrors.Place
	key    sign.KeyPair
	keys   string
	set    *mirrors.Set
}

func (w *world) secrets() secret.Provider { return secret.Folder(w.keys) }

// open opens a store and its mirrors; the function that it returns closes them.
func (w *world) open(folder string) (closed func()) {
	w.t.Helper()
	var s *store.FSStore
	w.set = mirrors.New(mirrors.Config{
		Places: w.places, Key: w.key, Store: folder, Secrets: w.secrets(),
		Birth: func() (string, []string) { return s.Birth().ID, s.Ancestors() },
	})
	s, err := store.Open(store.Config{Root: folder, NewNode: true, OnChange: w.set.Mark})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.set.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
		if err := s.Close(); err != nil {
			w.t.Error(err)
		}
	}
}

// state waits for a mirror's state.
func (w *world) state(what string, at int, is func(mirrors.Status) bool) {
	w.t.Helper()
	for end := time.Now().Add(3 * time.Minute); !is(w.set.Status()[at]); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("%s: %+v", what, w.set.Status()[at])
		}
	}
}
