package zdb_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/croft-edge/croft/modules/zdb"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

const one = "zdb-ssd0-user"

func (w *world) recordPath(container string) string {
	return filepath.Join(w.cfg.StateDir, "zdb", container+".json")
}

func TestRecord(t *testing.T) {
	w := newWorld(t)
	w.attach(one, workload.ZDBUser)
	raw, err := os.ReadFile(w.recordPath(one))
	must(t, err)
	if !strings.HasPrefix(string(raw), `"1.0.0"{"container":"zdb-ssd0-user","mode":"user","data":"/`) {
		t.Errorf("it is %s", raw)
	}
	info, err := os.Stat(w.recordPath(one))
	must(t, err)
	if info.Mode() != 0o600 {
		t.Errorf("its mode is %s", info.Mode())
	}
}

// TestDamagedRecords are set aside and shown; the zdb still knows its port.
func TestDamagedRecords(t *testing.T) {
	for name, damage := range map[string]func(raw string) string{
		"empty":           func(string) string { return "" },
		"cut":             func(raw string) string { return raw[:len(raw)/2] },
		"zeros":           func(raw string) string { return strings.Repeat("\x00", len(raw)) },
		"no version":      func(raw string) string { return strings.TrimPrefix(raw, `"1.0.0"`) },
		"no port":         func(raw string) string { return raw[:strings.Index(raw, `,"port"`)] + "}" },
		"another's":       func(raw string) string { return strings.Replace(raw, "zdb-ssd0-user", "zdb-ssd1-user", 1) },
		"a mode unheard":  func(raw string) string { return strings.Replace(raw, `"user"`, `"usr"`, 1) },
		"a relative path": func(raw string) string { return strings.Replace(raw, `"data":"/`, `"data":"`, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.attach("zdb-a", workload.ZDBUser) // has the first port
			spec := w.start(one, workload.ZDBUser)
			before := w.attachSpec(spec)
			w.close()
			raw, err := os.ReadFile(w.recordPath(one))
			must(t, err)
			must(t, os.WriteFile(w.recordPath(one), []byte(damage(string(raw))), 0o600))
			for range 2 { // it is so after another restart too
				w.open()
				if got := w.server(one); !strings.HasPrefix(got.Drift, "its record was damaged") || got.Port != 0 {
					t.Errorf("it is %+v", got)
				}
				if got := w.server("zdb-a"); got.Drift != "" {
					t.Errorf("the other one is %+v", got)
				}
				_, err = w.stub.Create(t.Context(), node.ZDBNamespaceSpec{Container: one, Name: "5-1", Size: 1})
				if node.KindOf(err) != node.Transient || !strings.Contains(err.Error(), "its record was damaged") {
					t.Errorf("it is %v", err)
				}
				w.close()
			}
			aside, err := os.ReadFile(strings.TrimSuffix(w.recordPath(one), ".json") + ".damaged")
			must(t, err)
			if string(aside) != damage(string(raw)) {
				t.Errorf("set aside was %q", aside)
			}
			w.open()
			if after := w.attachSpec(spec); !reflect.DeepEqual(after, before) {
				t.Errorf("attached again it is %+v, was %+v", after, before)
			}
			must(t, ping(before.Port))
			w.restart()
			if after := w.server(one); !reflect.DeepEqual(after, before) {
				t.Errorf("after a restart it is %+v, was %+v", after, before)
			}
			if !strings.Contains(w.log.String(), `"step":"load","error":`) {
				t.Error("nothing is logged")
			}
		})
	}
}

// TestDetachDamaged for good.
func TestDetachDamaged(t *testing.T) {
	w := newWorld(t)
	w.close()
	must(t, os.WriteFile(w.recordPath(one), []byte("x"), 0o600))
	w.open()
	must(t, w.stub.Detach(t.Context(), one))
	if err := w.stub.Detach(t.Context(), one); node.KindOf(err) != node.NotExist {
		t.Errorf("it is %v", err)
	}
	w.restart()
	left, err := os.ReadDir(filepath.Dir(w.recordPath(one)))
	must(t, err)
	if len(left) != 1 || left[0].Name() != "lock" {
		t.Errorf("left are %v", left)
	}
}

// TestNewerRecord isn't damaged: the module doesn't open, and leaves it.
func TestNewerRecord(t *testing.T) {
	w := newWorld(t)
	w.close()
	const newer = `"2.0.0"{"ports":[1,2]}`
	must(t, os.WriteFile(w.recordPath(one), []byte(newer), 0o600))
	_, err := zdb.Open(t.Context(), w.cfg)
	if node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), one) || !strings.Contains(err.Error(), "a newer croft") {
		t.Errorf("it is %v", err)
	}
	if raw, err := os.ReadFile(w.recordPath(one)); err != nil || string(raw) != newer {
		t.Errorf("it is %q, %v", raw, err)
	}
	must(t, os.Remove(w.recordPath(one)))
	w.open()
}

// TestForeignFiles is left alone.
func TestForeignFiles(t *testing.T) {
	w := newWorld(t)
	w.close()
	dir := filepath.Dir(w.recordPath(one))
	for _, name := range []string{"notes.txt", ".json", "-x.json", "a b.json"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("mine"), 0o600))
	}
	must(t, os.Mkdir(filepath.Join(dir, "folder.json"), 0o700))
	w.open()
	all, err := w.stub.Servers(t.Context())
	must(t, err)
	left, err := os.ReadDir(dir)
	must(t, err)
	if len(all) != 0 || len(left) != 6 {
		t.Errorf("in hand are %+v, left %v", all, left)
	}
}

func TestOnlyOneModule(t *testing.T) {
	w := newWorld(t)
	if _, err := zdb.Open(t.Context(), w.cfg); node.KindOf(err) != node.Busy {
		t.Errorf("another one: %v", err)
	}
	namespaces := w.module.Namespaces()
	w.close()
	must(t, w.module.Close())
	if _, err := namespaces.Servers(); node.KindOf(err) != node.Transient {
		t.Errorf("a closed one: %v", err)
	}
	w.open()
}

// TestUnwritableState leaves nothing in hand, and no port taken.
func TestUnwritableState(t *testing.T) {
	w := newWorld(t)
	spec := w.start(one, workload.ZDBUser)
	w.attachSpec(spec)
	must(t, w.stub.Detach(t.Context(), one))
	dir := filepath.Dir(w.recordPath(one))
	must(t, os.Rename(dir, dir+"-away"))
	before := descriptors(t)
	for range 5 {
		if _, err := w.stub.Attach(t.Context(), spec); node.KindOf(err) != node.Internal || !strings.Contains(err.Error(), "cannot keep the port") {
			t.Errorf("it is %v", err)
		}
	}
	if now := descriptors(t); now > before+2 {
		t.Errorf("%d descriptors, were %d", now, before)
	}
	all, err := w.stub.Servers(t.Context())
	must(t, err)
	if len(all) != 0 {
		t.Errorf("in hand are %+v", all)
	}
	must(t, os.Rename(dir+"-away", dir))
	if at := w.attachSpec(spec); at.Port != w.cfg.FirstPort {
		t.Errorf("its port is %d, want %d", at.Port, w.cfg.FirstPort)
	}
}
