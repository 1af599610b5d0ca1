package fscheck

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Parts of btrfs's format on disk (https://btrfs.readthedocs.io/en/latest/dev/On-disk-format.html), in bytes: a leaf's header begins with its checksum of what
// comes after the first 32 bytes, and its items' keys, places and sizes come behind it.
const (
	leafBytes, sumBytes, headerBytes, itemBytes = 16 << 10, 32, 101, 25
	ownerAt, countAt, levelAt                   = 88, 96, 100
	// Kinds of items, the IDs of the quota tree, of the first subvolume and of its first file, and where an inode has its number of names.
	qgroupInfo, inodeItem   = 242, 1
	quotaTree, volume, file = 8, 256, 257
	linksAt                 = 40
)

// image is a btrfs with quotas and a subvolume with a file.
func image(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	disk, at := filepath.Join(dir, "disk"), filepath.Join(dir, "mounted")
	must(t, os.Mkdir(at, 0o700))
	must(t, os.WriteFile(disk, nil, 0o600))
	must(t, os.Truncate(disk, 256<<20))
	must(t, run(t.Context(), "mkfs.btrfs", "-q", "-n", "16k", "--csum", "crc32c", disk))
	must(t, run(t.Context(), "mount", "-o", "loop", disk, at))
	defer func() { must(t, run(t.Context(), "umount", at)) }()
	must(t, run(t.Context(), "btrfs", "quota", "enable", at))
	must(t, run(t.Context(), "btrfs", "subvolume", "create", at+"/volume"))
	must(t, os.WriteFile(at+"/volume/file", bytes.Repeat([]byte("croft"), 100_000), 0o600))
	must(t, run(t.Context(), "btrfs", "filesystem", "sync", at))
	must(t, run(t.Context(), "btrfs", "quota", "rescan", "-w", at))
	return disk
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// change calls a function for the content of each item of a kind in the leaves of a tree, by the item's key, and gives the leaves the right checksums.
func change(t *testing.T, disk string, tree uint64, kind byte, each func(object, offset uint64, content []byte)) {
	t.Helper()
	raw, err := os.ReadFile(disk)
	must(t, err)
	changed := 0
	table, number := crc32.MakeTable(crc32.Castagnoli), binary.LittleEndian
	for at := 0; at+leafBytes <= len(raw); at += leafBytes {
		leaf := raw[at : at+leafBytes]
		if number.Uint64(leaf[ownerAt:]) != tree || leaf[levelAt] != 0 || number.Uint32(leaf) != crc32.Checksum(leaf[sumBytes:], table) {
			continue
		}
		for i := range int(number.Uint32(leaf[countAt:])) {
			if item := leaf[headerBytes+i*itemBytes:]; item[8] == kind {
				each(number.Uint64(item), number.Uint64(item[9:]), leaf[headerBytes+number.Uint32(item[17:]):])
				changed++
			}
		}
		number.PutUint32(leaf, crc32.Checksum(leaf[sumBytes:], table))
	}
	if changed == 0 {
		t.Fatal("the file system has no such item")
	}
	must(t, os.WriteFile(disk, raw, 0o600))
}

// miscount takes bytes off what the qgroup of the subvolume has counted.
func miscount(t *testing.T, disk string, by uint64) {
	t.Helper()
	change(t, disk, quotaTree, qgroupInfo, func(_, group uint64, content []byte) {
		if group != volume {
			return
		}
		for _, count := range [][]byte{content[8:], content[16:], content[24:], content[32:]} { // referenced and exclusive, each compressed and not
			binary.LittleEndian.PutUint64(count, binary.LittleEndian.Uint64(count)-by)
		}
	})
}

// damage has the subvolume's file count more names than it has.
func damage(t *testing.T, disk string) {
	t.Helper()
	change(t, disk, volume, inodeItem, func(inode, _ uint64, content []byte) {
		if inode == file {
			binary.LittleEndian.PutUint32(content[linksAt:], 7)
		}
	})
}

func TestBtrfs(t *testing.T) {
	disk := image(t)
	if miscounted, err := Btrfs(t.Context(), disk, 0); err != nil || len(miscounted) > 0 {
		t.Errorf("of a clean one it says %q, %v", miscounted, err)
	}
	miscount(t, disk, 8192)
	if miscounted, err := Btrfs(t.Context(), disk, 8191); err == nil || !strings.Contains(err.Error(), "off by 8192 bytes, at most 8191") {
		t.Errorf("of one that is off by more than is allowed it says %q, %v", miscounted, err)
	}
	if miscounted, err := Btrfs(t.Context(), disk, 8192); err != nil || len(miscounted) != 2 || !strings.Contains(miscounted[0], "0/256") {
		t.Errorf("of one that is off by as much as is allowed it says %q, %v", miscounted, err)
	}
	if miscounted, err := Btrfs(t.Context(), disk, 0); err != nil || len(miscounted) > 0 {
		t.Errorf("once it was counted anew it says %q, %v", miscounted, err)
	}
}

// TestOtherFaults holds that no other fault is allowed, alone or beside miscounted qgroups.
func TestOtherFaults(t *testing.T) {
	disk := image(t)
	damage(t, disk)
	if miscounted, err := Btrfs(t.Context(), disk, 1<<20); err == nil || !strings.Contains(err.Error(), "another fault") {
		t.Errorf("of a damaged one it says %q, %v", miscounted, err)
	}
	miscount(t, disk, 4096)
	if miscounted, err := Btrfs(t.Context(), disk, 1<<20); err == nil || !strings.Contains(err.Error(), "link count wrong") {
		t.Errorf("of one that is damaged and miscounts it says %q, %v", miscounted, err)
	}
}
