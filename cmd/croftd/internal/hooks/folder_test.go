package hooks_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/cmd/croftd/internal/hooks"
)

const good = "on: {cron: '@daily'}\nrun: [/bin/true]\n"

// folder is a folder that only root can change: the usual one for tests is below one that everybody can write.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/run", "croft-hooks-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func put(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestLoad(t *testing.T) {
	dir := folder(t)
	put(t, dir, "b.yaml", good)
	put(t, dir, "a.yaml", good)
	put(t, dir, "a.yaml.bak", "no hook")
	put(t, dir, ".hidden.yaml", "no hook")
	put(t, dir, "README", "no hook")
	for name, refusal := range map[string]struct {
		want string
		make func(path string) error
	}{
		"w-world":    {"can be written by others than root (mode -rw-r--rw-)", func(p string) error { return os.Chmod(p, 0o646) }},
		"w-group":    {"can be written by others than root (mode -rw-rw-r--)", func(p string) error { return os.Chmod(p, 0o664) }},
		"w-owner":    {"isn't root's", func(p string) error { return os.Chown(p, 65534, 0) }},
		"w-link":     {"it is a link, it must be a regular file", func(p string) error { must(t, os.Remove(p)); return os.Symlink("b.yaml", p) }},
		"w-fifo":     {"must be a regular file", func(p string) error { must(t, os.Remove(p)); return unix.Mkfifo(p, 0o600) }},
		"w-folder":   {"must be a regular file", func(p string) error { must(t, os.Remove(p)); return os.Mkdir(p, 0o700) }},
		"w-device":   {"must be a regular file", func(p string) error { must(t, os.Remove(p)); return unix.Mknod(p, unix.S_IFCHR|0o600, 1<<8|3) }},
		"w-large":    {"more than 65536 bytes", func(p string) error { return os.Truncate(p, 100<<20) }},
		"w-wrong":    {`no field "runs"`, func(p string) error { return os.WriteFile(p, []byte("runs: x"), 0o600) }},
		"W name":     {"it must be lower case letters", func(string) error { return nil }},
		"w-dangling": {"it is a link", func(p string) error { must(t, os.Remove(p)); return os.Symlink("nowhere", p) }},
	} {
		must(t, refusal.make(put(t, dir, name+".yaml", good)))
		_, refused := hooks.Load(dir)
		found := false
		for _, r := range refused {
			if r.File == filepath.Join(dir, name+".yaml") {
				found = true
				if !strings.Contains(r.Err.Error(), refusal.want) || !strings.HasPrefix(r.Err.Error(), "cannot ") {
					t.Errorf("%s: %v\nwant %s", name, r.Err, refusal.want)
				}
			}
		}
		if !found {
			t.Errorf("%s isn't refused: %v", name, refused)
		}
	}
	all, refused := hooks.Load(dir)
	if len(all) != 2 || all[0].Name != "a" || all[1].Name != "b" || len(refused) != 11 {
		t.Errorf("%d hooks and %d refusals: %v %v", len(all), len(refused), all, refused)
	}
}

func TestLoadOfFolders(t *testing.T) {
	dir := folder(t)
	inner := filepath.Join(dir, "hooks.d")
	must(t, os.Mkdir(inner, 0o755))
	put(t, inner, "a.yaml", good)
	for name, c := range map[string]struct {
		dir, want string
		change    func() error
	}{
		"missing":        {filepath.Join(dir, "none"), "", func() error { return nil }},
		"relative":       {"hooks.d", "must be an absolute path", func() error { return nil }},
		"a file":         {filepath.Join(inner, "a.yaml"), "must be a folder, and not a link", func() error { return nil }},
		"a link":         {filepath.Join(dir, "link"), "must be a folder, and not a link", func() error { return os.Symlink(inner, filepath.Join(dir, "link")) }},
		"below a link":   {filepath.Join(dir, "link2", "hooks.d"), "must be a folder, and not a link", func() error { return os.Symlink(dir, filepath.Join(dir, "link2")) }},
		"below /tmp":     {t.TempDir(), "can be written by others than root", func() error { return nil }},
		"others' folder": {inner, inner + ": can be written by others than root (mode -rwxrwxr-x)", func() error { return os.Chmod(inner, 0o775) }},
		"others' above":  {inner, dir + ": isn't root's", func() error { return os.Chown(dir, 65534, 65534) }},
	} {
		must(t, c.change())
		all, refused := hooks.Load(c.dir)
		if len(all) != 0 || len(refused) != min(len(c.want), 1) || len(refused) == 1 && !strings.Contains(refused[0].Err.Error(), c.want) {
			t.Errorf("%s: %v %v, want %s", name, all, refused, c.want)
		}
		must(t, os.Chmod(inner, 0o755))
		must(t, os.Chown(dir, 0, 0))
	}
	if all, refused := hooks.Load(inner); len(all) != 1 || len(refused) != 0 {
		t.Errorf("%v %v", all, refused)
	}
}

func TestAThousandFiles(t *testing.T) {
	dir := folder(t)
	for i := range 1000 {
		put(t, dir, fmt.Sprintf("h%04d.yaml", i), good)
	}
	all, refused := hooks.Load(dir)
	if len(all) != 100 || all[99].Name != "h0099" || len(refused) != 1 || !strings.Contains(refused[0].Err.Error(), "900 files after these are left out") {
		t.Errorf("%d hooks, %v", len(all), refused)
	}
	for i := range 3200 {
		put(t, dir, fmt.Sprintf("other%d", i), "")
	}
	if all, refused := hooks.Load(dir); len(all) != 0 || len(refused) != 1 || !strings.Contains(refused[0].Err.Error(), "more than 4096 files") {
		t.Errorf("%d hooks, %v", len(all), refused)
	}
}
