package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/modules/identity"
	"github.com/croft-edge/croft/modules/storage"
	"github.com/croft-edge/croft/modules/storage/nodestate"
	"github.com/croft-edge/croft/pkg/node"
)

func prepared(t *testing.T, c config.Config) Prepared {
	t.Helper()
	var out bytes.Buffer
	if err := Prepare(t.Context(), c, storage.StateSpec{Want: nodestate.Want{Make: true}}, &out); err != nil {
		t.Fatal(err)
	}
	var p Prepared
	if err := json.Unmarshal(out.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPrepareSaysWhoseStateItIs(t *testing.T) {
	c := load(t, map[string]string{"disk": "SSD:" + disk(t)})
	p := prepared(t, c)
	if !p.Made || p.Node != "" || p.Path != filepath.Join(c.RunDir, "pools", p.Pool, "node", "state") || p.State != filepath.Join(p.Path, "croft") || p.Disk != c.Disks[0].Path {
		t.Errorf("%+v", p)
	}
	m, err := identity.Open(identity.Config{Dir: filepath.Join(p.State, "identity")})
	if err != nil {
		t.Fatal(err)
	}
	again := prepared(t, c)
	if again.Made || again.Node != m.NodeID() || again.Problem != "" || again.UUID != p.UUID {
		t.Errorf("%+v, want node %s", again, m.NodeID())
	}
	if err := os.WriteFile(filepath.Join(p.State, "identity", "seed"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if damaged := prepared(t, c); damaged.Problem == "" || damaged.Node != "" {
		t.Errorf("with a damaged key: %+v", damaged)
	}
	made(t, c) // else nothing of it is found to be removed
}

func TestThePoolOfTheStateIsNotDestroyed(t *testing.T) {
	c := load(t, map[string]string{"disk": "SSD:" + disk(t)})
	p := prepared(t, c)
	for _, name := range []string{p.Pool, ""} {
		made(t, c)
		err := Destroy(t.Context(), c, name, false)
		if node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), "the state of the node itself") || !strings.Contains(err.Error(), "--force") {
			t.Errorf("destroying %q: %v", name, err)
		}
	}
	at := t.TempDir()
	if err := unix.Mount(p.Path, at, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"detach": Detach(t.Context(), c), "destroy": Destroy(t.Context(), c, "", true)} {
		if node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), at) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := unix.Unmount(at, 0); err != nil {
		t.Fatal(err)
	}
	m, err := storage.Open(t.Context(), moduleConfig(c, zerolog.Nop()))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(context.Background())
	if err := Prepare(t.Context(), c, storage.StateSpec{}, &bytes.Buffer{}); node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), "stop the node") {
		t.Errorf("preparing beside the running node: %v", err)
	}
}
