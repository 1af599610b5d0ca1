package spec_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/container/spec"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	passwd = "root:x:0:0:root:/root:/bin/sh\nweb:x:1000:100:Web:/home/web:/bin/sh\nhigh:x:70000:0::/:\n2000:x:3000:3000::/:\nthick:x:5:70000::/:\nhomeless:x:6:6:::\n"
	groups = "root:x:0:\nusers:x:100:\nvideo:x:44:web,other\naudio:x:63:web\nhuge:x:65536:\n"
)

// imageRoot is the root of an image with those users, empty for none.
func imageRoot(t *testing.T, passwd, groups string) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"passwd": passwd, "group": groups} {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(root, "etc", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestProcessUser(t *testing.T) {
	root := imageRoot(t, passwd, groups)
	bare := imageRoot(t, "", "")
	for _, c := range []struct {
		root, user string
		uid, gid   uint32
		groups     []uint32
		home       string
	}{
		{root, "", 0, 0, nil, "/root"},
		{root, "root", 0, 0, nil, "/root"},
		{root, "0", 0, 0, nil, "/root"},
		{root, "web", 1000, 100, []uint32{44, 63}, "/home/web"},
		{root, "1000", 1000, 100, []uint32{44, 63}, "/home/web"},
		{root, "web:video", 1000, 44, nil, "/home/web"},
		{root, "web:7", 1000, 7, nil, "/home/web"},
		{root, "1000:users", 1000, 100, nil, "/home/web"},
		{root, "1234", 1234, 0, nil, "/"},
		{root, "1234:5678", 1234, 5678, nil, "/"},
		{root, "2000", 2000, 0, nil, "/"}, // a number is an ID, also where a user is called so
		{root, "homeless", 6, 6, nil, "/"},
		{root, "65535:65535", 65535, 65535, nil, "/"},
		{bare, "", 0, 0, nil, "/root"},
		{bare, "1000", 1000, 0, nil, "/"},
		{bare, "1000:1000", 1000, 1000, nil, "/"},
	} {
		p, err := spec.NewProcess(ocispec.ImageConfig{User: c.user, Cmd: []string{"x"}}, nil, nil, c.root)
		if err != nil {
			t.Errorf("%q: %v", c.user, err)
			continue
		}
		if p.UID != c.uid || p.GID != c.gid || !slices.Equal(p.Groups, c.groups) || !slices.Contains(p.Env, "HOME="+c.home) {
			t.Errorf("%q is %d:%d %v, environment %q; want %d:%d %v in %s", c.user, p.UID, p.GID, p.Groups, p.Env, c.uid, c.gid, c.groups, c.home)
		}
	}
	for _, user := range []string{"nobody", "web:nobody", "high", "thick", "65536", "0:65536", "root:huge", "-1", "0:-1", "4294967296", "99999999999999999999", "a:b:c", "we\x00b", "web\n"} {
		_, err := spec.NewProcess(ocispec.ImageConfig{User: user, Cmd: []string{"x"}}, nil, nil, root)
		if !errors.Is(err, node.Invalid) || !strings.Contains(err.Error(), "the image's user") {
			t.Errorf("%q: %v, want it invalid", user, err)
		}
	}
	if _, err := spec.NewProcess(ocispec.ImageConfig{User: "web", Cmd: []string{"x"}}, nil, nil, bare); !errors.Is(err, node.Invalid) {
		t.Errorf("a name without /etc/passwd: %v", err)
	}
}

func TestHostileUserFiles(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"huge":   func(path string) error { return os.WriteFile(path, make([]byte, 1<<20+1), 0o600) },
		"sparse": func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40)) },
		"a line without an end": func(path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("a", 1<<20)), 0o600)
		},
		"FIFO":       func(path string) error { return unix.Mkfifo(path, 0o600) },
		"folder":     func(path string) error { return os.Mkdir(path, 0o700) },
		"device":     func(path string) error { return unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))) },
		"socket":     func(path string) error { return unix.Mknod(path, unix.S_IFSOCK|0o600, 0) },
		"link round": func(path string) error { return os.Symlink("passwd", path) },
		"link to a FIFO": func(path string) error {
			return errors.Join(unix.Mkfifo(path+".fifo", 0o600), os.Symlink("passwd.fifo", path))
		},
	} {
		root := imageRoot(t, "", groups)
		if err := make(filepath.Join(root, "etc", "passwd")); err != nil {
			t.Fatal(err)
		}
		_, err := spec.NewProcess(ocispec.ImageConfig{User: "web", Cmd: []string{"x"}}, nil, nil, root)
		if !errors.Is(err, node.Invalid) {
			t.Errorf("%s: %v, want it invalid", name, err)
		}
	}
}

// Links lead where they would in the container, never to the node's files: the
// user that the node's files have isn't found.
// Another container has a lease on a file in a volume at /etc: opening it takes up to 45 s until
// that is given up. The node doesn't wait.
func TestALeaseOnAUserFile(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(root, "etc/passwd"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatal(err)
	}
	_, err = spec.NewProcess(ocispec.ImageConfig{User: "ada", Cmd: []string{"/x"}}, nil, nil, root)
	if node.KindOf(err) != node.Transient {
		t.Errorf("%v is %s, want %s", err, node.KindOf(err), node.Transient)
	}
}

func TestUserFilesDontLeadOut(t *testing.T) {
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "passwd"), []byte("out:x:1:1::/:\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"absolute": filepath.Join(outside, "passwd"), "relative": "../../../../../../../../../.." + outside + "/passwd",
		"node's processes": "/proc/self/root" + outside + "/passwd", "open file": "/proc/self/fd/0",
	} {
		root := imageRoot(t, "", "")
		if err := os.Symlink(target, filepath.Join(root, "etc", "passwd")); err != nil {
			t.Fatal(err)
		}
		if _, err := spec.NewProcess(ocispec.ImageConfig{User: "out", Cmd: []string{"x"}}, nil, nil, root); !errors.Is(err, node.Invalid) {
			t.Errorf("%s: %v, want it invalid", name, err)
		}
	}
	root := imageRoot(t, "", "")
	if err := os.Remove(filepath.Join(root, "etc")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(root, "etc")); err != nil {
		t.Fatal(err)
	}
	if _, err := spec.NewProcess(ocispec.ImageConfig{User: "out", Cmd: []string{"x"}}, nil, nil, root); !errors.Is(err, node.Invalid) {
		t.Errorf("/etc as a link: %v, want it invalid", err)
	}
	// Within the image they work.
	inside := imageRoot(t, "", "")
	if err := os.WriteFile(filepath.Join(inside, "users"), []byte("in:x:7:8::/:\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/users", filepath.Join(inside, "etc", "passwd")); err != nil {
		t.Fatal(err)
	}
	if p, err := spec.NewProcess(ocispec.ImageConfig{User: "in", Cmd: []string{"x"}}, nil, nil, inside); err != nil || p.UID != 7 || p.GID != 8 {
		t.Errorf("a link within the image: %+v, %v", p, err)
	}
}

func TestProcessArguments(t *testing.T) {
	root := imageRoot(t, "", "")
	for name, c := range map[string]struct {
		image ocispec.ImageConfig
		asked []string
		want  []string
	}{
		"both":               {ocispec.ImageConfig{Entrypoint: []string{"/e"}, Cmd: []string{"a", "b"}}, nil, []string{"/e", "a", "b"}},
		"command":            {ocispec.ImageConfig{Cmd: []string{"a"}}, nil, []string{"a"}},
		"entry point":        {ocispec.ImageConfig{Entrypoint: []string{"/e"}}, nil, []string{"/e"}},
		"asked over both":    {ocispec.ImageConfig{Entrypoint: []string{"/e"}, Cmd: []string{"a"}}, []string{"/x", ""}, []string{"/x", ""}},
		"asked over nothing": {ocispec.ImageConfig{}, []string{"/x"}, []string{"/x"}},
	} {
		if p, err := spec.NewProcess(c.image, c.asked, nil, root); err != nil || !slices.Equal(p.Args, c.want) {
			t.Errorf("%s: %q, %v, want %q", name, p.Args, err, c.want)
		}
	}
	for name, c := range map[string]struct {
		image ocispec.ImageConfig
		want  string
	}{
		"nothing at all": {ocispec.ImageConfig{}, "neither an entry point nor a command"},
		"an empty one":   {ocispec.ImageConfig{Cmd: []string{""}}, "no program"},
		"a zero":         {ocispec.ImageConfig{Cmd: []string{"a\x00"}}, "no zero characters"},
	} {
		if _, err := spec.NewProcess(c.image, nil, nil, root); !errors.Is(err, node.Invalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it invalid with %q", name, err, c.want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	root := imageRoot(t, passwd, groups)
	image := ocispec.ImageConfig{User: "web", Cmd: []string{"x"}, Env: []string{"PATH=/bin", "A=1", "B=x=y", "A=2", "nothing", "=x", "EMPTY="}}
	p, err := spec.NewProcess(image, nil, map[string]string{"Z": "line\nline\n\ttab ' \" \\ $HOME", "B": "", "HOME": "/h"}, root)
	want := []string{"PATH=/bin", "HOME=/h", "A=2", "B=", "EMPTY=", "Z=line\nline\n\ttab ' \" \\ $HOME"}
	if err != nil || !slices.Equal(p.Env, want) {
		t.Errorf("the environment is %q, %v, want %q", p.Env, err, want)
	}
	p, err = spec.NewProcess(ocispec.ImageConfig{Cmd: []string{"x"}}, nil, nil, root)
	if want := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}; err != nil || !slices.Equal(p.Env, want) {
		t.Errorf("of nothing the environment is %q, %v, want %q", p.Env, err, want)
	}
	for name, env := range map[string]map[string]string{
		"zero in a value": {"A": "secret\x00"}, "zero in a name": {"A\x00": "secret"}, "no name": {"": "secret"}, "= in a name": {"A=B": "secret"},
		"too long": {"A": "secret" + strings.Repeat("x", 128<<10)},
	} {
		_, err := spec.NewProcess(image, nil, env, root)
		if !errors.Is(err, node.Invalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %.200v, want it invalid, and its value not shown", name, err)
		}
	}
	image.Env = append(image.Env, "C=\x00")
	if _, err := spec.NewProcess(image, nil, nil, root); !errors.Is(err, node.Invalid) {
		t.Errorf("a zero in the image's: %v", err)
	}
}

func TestWorkingFolder(t *testing.T) {
	root := imageRoot(t, "", "")
	for _, dir := range []string{"srv/deep", "proc/self/fd/7", "dev"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"good": "/srv/deep", "up": "../../srv", "lost": "/nowhere", "fd": "/proc/self/fd/7", "round": "round", "srv/proc": "../proc"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for asked, want := range map[string]string{
		"": "/", "/": "/", "srv": "/srv", "/srv/": "/srv", "../../srv": "/srv", "/srv/../srv/deep": "/srv/deep",
		"/missing/deep": "/missing/deep", "/good": "/good", "/up/deep": "/up/deep",
	} {
		if p, err := spec.NewProcess(ocispec.ImageConfig{WorkingDir: asked, Cmd: []string{"x"}}, nil, nil, root); err != nil || p.Cwd != want {
			t.Errorf("%q is %q, %v, want %q", asked, p.Cwd, err, want)
		}
	}
	for _, asked := range []string{"/proc", "/proc/self/fd/7", "/srv/../proc/self", "/sys/x", "/dev", "/fd", "/fd/x", "/srv/proc/self", "/lost", "/round", "/file", "/file/x", "/a\x00", "/" + strings.Repeat("a/", 3000)} {
		if _, err := spec.NewProcess(ocispec.ImageConfig{WorkingDir: asked, Cmd: []string{"x"}}, nil, nil, root); !errors.Is(err, node.Invalid) {
			t.Errorf("%.40q: %v, want it invalid", asked, err)
		}
	}
}
