package zdb_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-edge/croft/zdb"
)

func TestConfigValidate(t *testing.T) {
	for want, cfg := range map[string]zdb.Config{
		`Data is empty, must be a folder`:                              {},
		`Mode is "sequential", must be "user", "seq" or empty`:         {Data: "x", Mode: "sequential"},
		`Compat is "v3", must be "v1" or "v2"`:                         {Data: "x", Compat: "v3"},
		`Admin has 129 bytes, must have at most 128`:                   {Data: "x", Admin: strings.Repeat("a", 129)},
		`Protect is set and Admin is empty, must be a password`:        {Data: "x", Protect: true},
		`DataSize is 4095, must be 0 or from 4096 to 2147483648 bytes`: {Data: "x", DataSize: 4095},
		`DataSize is 2147483649, must be 0 or from 4096 to 2147483648`: {Data: "x", DataSize: 2<<30 + 1},
		`MaxNamespaces is -1, must be from 1 to 65536, or 0`:           {Data: "x", MaxNamespaces: -1},
		`MaxNamespaces is 65537, must be from 1 to 65536, or 0`:        {Data: "x", MaxNamespaces: 65537},
	} {
		_, err := zdb.New(cfg)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if err != nil && cfg.Admin != "" && strings.Contains(err.Error(), cfg.Admin) {
			t.Errorf("the error tells the password: %v", err)
		}
	}
	for _, cfg := range []zdb.Config{{Data: "x"}, {Data: "x", Mode: "seq", Compat: "v1", Admin: strings.Repeat("a", 128), Protect: true, DataSize: 4096, MaxNamespaces: 65536}} {
		if err := cfg.Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestASecondServerIsRefused(t *testing.T) {
	data, index := t.TempDir(), t.TempDir()
	b := open(t, zdb.Config{Data: data, Index: index})
	for _, cfg := range []zdb.Config{{Data: data, Index: index}, {Data: data}, {Data: t.TempDir(), Index: index}, {Data: index}} {
		_, err := zdb.New(cfg)
		if err == nil || !strings.Contains(err.Error(), "another zdb has it open") {
			t.Errorf("a server with data %q and index %q: %v", cfg.Data, cfg.Index, err)
		}
	}
	b.again()
	b.client().want(ok, "SELECT default")
}

// With a folder of its own the index, too, can be the same folder by another name.
func TestIndexInTheSameFolder(t *testing.T) {
	data := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(data, link); err != nil {
		t.Fatal(err)
	}
	b := open(t, zdb.Config{Data: data, Index: link, Mode: "seq"})
	id := b.client().do("SET", "", "value")
	b.again()
	if got := b.client().do("GET", strings.TrimSuffix(id[4:], "\r\n")); got != bulk("value") {
		t.Errorf("got %q", got)
	}
}

// A folder of data that is given for the index by mistake stays as it is.
func TestAnIndexFolderWithDataIsRefused(t *testing.T) {
	other := open(t, zdb.Config{Data: t.TempDir()})
	other.client().all("NSNEW a", "NSNEW b")
	other.close()
	cfg := zdb.Config{Data: t.TempDir(), Index: other.cfg.Data}
	if _, err := zdb.New(cfg); err == nil || !strings.Contains(err.Error(), "it has data of a zdb") {
		t.Error(err)
	}
	// Not even without its default.
	if err := os.Rename(filepath.Join(other.cfg.Data, "0"), filepath.Join(t.TempDir(), "0")); err != nil {
		t.Fatal(err)
	}
	if _, err := zdb.New(cfg); err == nil || !strings.Contains(err.Error(), "it has data of a zdb") {
		t.Error(err)
	}
	if found := grep(t, other.cfg.Data, `"name":"a"`); len(found) != 1 {
		t.Errorf("the other's namespace is in %v", found)
	}
	if _, err := os.Stat(filepath.Join(other.cfg.Data, "2", "namespace")); err != nil {
		t.Error(err)
	}
}

func TestOtherCompatIsRefused(t *testing.T) {
	b := open(t, zdb.Config{})
	b.close()
	_, err := zdb.New(zdb.Config{Data: b.cfg.Data, Compat: zdb.CompatV1})
	if err == nil || !strings.Contains(err.Error(), "with compat v1: its data was made with v2") {
		t.Error(err)
	}
	b.start()
}
