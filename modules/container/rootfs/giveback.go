package rootfs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// giveBack is Store.GiveBack.
func (t *ranges) giveBack() (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.anyGone() {
		return 0, nil
	}
	given := 0
	err := t.exclusively(func() error {
		users, err := readRanges(t.path())
		if err != nil {
			return err
		}
		was := len(users)
		changed, err := t.dropFree(users)
		if err != nil || !changed {
			return err
		}
		if err := writeRanges(t.path(), users); err != nil {
			return err
		}
		t.held, given = users, was-len(users)
		return nil
	})
	return given, err
}

// anyGone is whether a share may be free. mu is held.
func (t *ranges) anyGone() bool {
	for user, held := range t.held {
		if len(held.Layers) == 0 && !held.Older && t.working[user] == 0 {
			return true
		}
		for layer, on := range held.Layers {
			if layerGone(layer, on) {
				return true
			}
		}
	}
	return false
}

// dropFree removes from users the layers that are gone and the shares that nothing
// holds, and reports whether there were any. mu is held.
func (t *ranges) dropFree(users map[string]share) (changed bool, err error) {
	free := map[string]Range{}
	for user, held := range users {
		left := maps.Clone(held.Layers)
		maps.DeleteFunc(left, layerGone)
		if len(left) != len(held.Layers) && t.working[user] == 0 {
			held.Layers, changed = left, true
			users[user] = held
		}
		if len(left) == 0 && !held.Older && t.working[user] == 0 {
			free[user] = rangeOf(held.Index)
		}
	}
	if len(free) == 0 {
		return changed, nil
	}
	if err := t.keepUsers(free); err != nil {
		return changed, err
	}
	if err := keepRunning(free); err != nil {
		return changed, err
	}
	for user := range free {
		delete(users, user)
	}
	return changed || len(free) > 0, nil
}

// keepUsers takes the ranges of users who have a container out of free: all of them
// while a container's user isn't known.
func (t *ranges) keepUsers(free map[string]Range) error {
	users, known, err := t.users()
	if err != nil {
		return err
	}
	if !known {
		clear(free)
	}
	for _, user := range users {
		delete(free, user)
	}
	return nil
}

// keepRunning takes the ranges of which a process has an ID out of free.
func keepRunning(free map[string]Range) error {
	owner := make(map[uint32]string, len(free))
	for user, r := range free {
		owner[r.Base/rangeSize] = user
	}
	all, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return errors.Wrap(err, "cannot look for processes")
	}
	for _, path := range all {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		for line := range strings.Lines(string(raw)) {
			ids, user := strings.CutPrefix(line, "Uid:")
			if !user {
				if ids, user = strings.CutPrefix(line, "Gid:"); !user {
					continue
				}
			}
			for _, field := range strings.Fields(ids) {
				if id, err := strconv.ParseUint(field, 10, 32); err == nil {
					delete(free, owner[uint32(id)/rangeSize])
				}
			}
		}
	}
	return nil
}

// fileSystemOf names the file system in which a layer is an entry, the same for as
// long as that exists. NotExist when there is no such layer.
func fileSystemOf(layer string) (string, error) {
	on, there, err := within(layer)
	if err == nil && !there {
		err = node.Errorf(node.NotExist, "cannot use layer %s: it isn't a folder", layer)
	}
	return on, err
}

// layerGone is whether a layer was removed from the file system that it was on.
func layerGone(layer, on string) bool {
	now, there, err := within(layer)
	return err == nil && !there && now == on
}

// within names the file system in which a layer is an entry, and reports whether
// it is there as a folder: both of one open folder, whatever is mounted meanwhile.
func within(layer string) (on string, there bool, err error) {
	dir, err := os.Open(filepath.Dir(layer))
	if err != nil {
		return "", false, failed("look at the folder of layer", layer, err)
	}
	defer dir.Close()
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &fs); err != nil {
		return "", false, failed("look at the file system of layer", layer, err)
	}
	var st unix.Stat_t
	err = unix.Fstatat(int(dir.Fd()), filepath.Base(layer), &st, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return "", false, failed("look at layer", layer, err)
	}
	there = err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
	return fmt.Sprintf("%x-%08x%08x", fs.Type, uint32(fs.Fsid.Val[0]), uint32(fs.Fsid.Val[1])), there, nil
}
