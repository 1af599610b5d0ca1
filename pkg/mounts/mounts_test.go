package mounts

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func TestLinesAreRead(t *testing.T) {
	text := `36 35 0:42 /@/a /mnt/with\040a\134space rw,noatime master:1 shared:2 - btrfs /dev/loop3 rw,space` + "\n" +
		"37 36 0:43 / /mnt/b ro - tmpfs  rw\n" + // mounted with an empty source
		"38 36 0:44 / /mnt/c\rd ro - tmpfs none rw" // without the end of its line
	want := Table{
		{ID: 36, Parent: 35, Root: "/@/a", Path: `/mnt/with a\space`, Options: "rw,noatime", Shared: true, Type: "btrfs", Source: "/dev/loop3", Super: "rw,space"},
		{ID: 37, Parent: 36, Root: "/", Path: "/mnt/b", Options: "ro", Type: "tmpfs", Super: "rw"},
		{ID: 38, Parent: 36, Root: "/", Path: "/mnt/c\rd", Options: "ro", Type: "tmpfs", Source: "none", Super: "rw"},
	}
	if got := Parse(text); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, bad := range []string{"", "\n", "36 35 0:42 / /mnt", "36 35 0:42 / - btrfs", strings.Repeat("x ", 20), "a 35 0:42 / /mnt rw - btrfs none rw", "36 -1 0:42 / /mnt rw - btrfs none rw"} {
		if got := Parse(bad); len(got) != 0 {
			t.Errorf("%q is %+v", bad, got)
		}
	}
}

// Any path is read unchanged, and hides no other line.
func TestAnyPathIsRead(t *testing.T) {
	escape := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`, "#", `\043`)
	rapid.Check(t, func(t *rapid.T) {
		path := "/" + rapid.StringN(0, 300, -1).Draw(t, "path")
		text := fmt.Sprintf("1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / %s rw shared:7 - tmpfs none rw\n3 1 0:3 / /last rw - tmpfs none rw\n", escape.Replace(path))
		got := Parse(text)
		if want := []string{"/", path, "/last"}; !slices.Equal(got.Paths(), want) {
			t.Fatalf("%q, want %q", got.Paths(), want)
		}
	})
}

func TestMountsAtAPath(t *testing.T) {
	table := Parse("1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / /a rw - tmpfs none rw\n3 2 0:3 / /a/b rw - tmpfs none rw\n" +
		"4 1 0:4 / /ab rw - tmpfs none rw\n5 2 0:5 / /a rw - tmpfs over rw\n")
	if m, found := table.At("/a"); !found || m.ID != 5 {
		t.Errorf("at /a is %+v, %t", m, found)
	}
	if m, found := table.At("/b"); found {
		t.Errorf("at /b is %+v", m)
	}
	for dir, want := range map[string][]string{"/a": {"/a", "/a/b", "/a"}, "/": {"/", "/a", "/a/b", "/ab", "/a"}, "/b": {}} {
		if got := table.Within(dir).Paths(); !slices.Equal(got, want) {
			t.Errorf("within %s are %q, want %q", dir, got, want)
		}
	}
	if byID := table.ByID(); len(byID) != 5 || byID[3].Path != "/a/b" {
		t.Errorf("by ID: %+v", byID)
	}
}

// The kernel's own line of a mount whose path is longer than a library's buffer. The mount is in a mount
// namespace of this thread, which ends with the test: nobody else sees it.
func TestALongPathIsRead(t *testing.T) {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this
		done <- longPath(t, t.TempDir())
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func longPath(t *testing.T, dir string) error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make private: %w", err)
	}
	// All of it lies on a tmpfs of the namespace, so that nothing has to remove such a path.
	if err := unix.Mount("croft", dir, "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	inner := filepath.Join(dir, "moved", "inner")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("croft-inner", inner, "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	name := strings.Repeat("d", 250)
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	from := at
	for range 300 {
		if err := unix.Mkdirat(at, name, 0o755); err != nil {
			return err
		}
		next, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		if at != from {
			unix.Close(at)
		}
		at = next
	}
	if err := unix.Renameat(from, "moved", at, "moved"); err != nil {
		return err
	}
	unix.Close(at)
	unix.Close(from)
	table, err := Read()
	if err != nil {
		return err
	}
	below := table.Within(dir)
	if len(below) != 2 || below[1].Source != "croft-inner" || len(below[1].Path) < 64<<10 {
		t.Errorf("%d mounts, the last of %q with a path of %d bytes", len(below), below[len(below)-1].Source, len(below[len(below)-1].Path))
	}
	return nil
}
