package rootfs

import (
	"os"
	"strconv"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// mountPoint is one line of /proc/self/mountinfo.
type mountPoint struct {
	id, parent uint64
	path       string
	options    string
	shared     bool
}

// table is what is mounted, by the mounts' IDs.
type table map[uint64]mountPoint

// readTable reads what is mounted. A line may be of any length: a container
// can rename the folders above a mount.
func readTable() (table, error) {
	raw, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, errors.Wrap(err, "cannot read what is mounted")
	}
	t := table{}
	for line := range strings.Lines(string(raw)) {
		if m, ok := parseMount(line); ok {
			t[m.id] = m
		}
	}
	return t, nil
}

// parseMount reads "36 35 98:0 /root /mnt rw,noatime shared:1 … - type source opts".
func parseMount(line string) (mountPoint, bool) {
	left, _, found := strings.Cut(line, " - ")
	f := strings.Fields(left)
	if !found || len(f) < 6 {
		return mountPoint{}, false
	}
	id, err := strconv.ParseUint(f[0], 10, 64)
	if err != nil {
		return mountPoint{}, false
	}
	parent, err := strconv.ParseUint(f[1], 10, 64)
	if err != nil {
		return mountPoint{}, false
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	m := mountPoint{id: id, parent: parent, path: unescape.Replace(f[4]), options: f[5]}
	for _, tag := range f[6:] {
		m.shared = m.shared || strings.HasPrefix(tag, "shared:")
	}
	return m, true
}

// at is whether something is mounted on path.
func (t table) at(path string) bool {
	for _, m := range t {
		if m.path == path {
			return true
		}
	}
	return false
}

// within are the paths of mounts on dir and below it.
func (t table) within(dir string) []string {
	var out []string
	for _, m := range t {
		if m.path == dir || strings.HasPrefix(m.path, dir+"/") {
			out = append(out, m.path)
		}
	}
	return out
}

// mountID is the ID of the mount that an open file is on.
func mountID(f *os.File) (uint64, error) {
	var st unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st); err != nil {
		return 0, errors.Wrapf(err, "cannot look at the mount of %s", f.Name())
	}
	if st.Mask&unix.STATX_MNT_ID == 0 {
		return 0, errors.New("cannot look at a mount: this kernel doesn't tell its ID (Linux 5.8 does)")
	}
	return st.Mnt_id, nil
}

// unmount takes everything off path, and all that is mounted below it. path is
// one of our own folders, never one that a container can change: a link in it
// would lead to somebody else's mount.
func unmount(path string) error {
	for {
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		switch {
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
			return nil // nothing is mounted there, or not any more
		case err != nil:
			return errors.Wrapf(err, "cannot unmount %s", path)
		}
	}
}
