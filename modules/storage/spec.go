package storage

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/croft-edge/croft/modules/storage/bytesize"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// minLoopSize is the smallest pool in bytes: below it btrfs' own structures
// leave next to nothing.
const minLoopSize = 256 * bytesize.MiB

// PoolSpec names a pool: either a loop file of a size, or a whole disk.
type PoolSpec struct {
	// Name is the pool's, [a-z0-9-] and at most 32 characters. Empty means
	// ssd0, ssd1, hdd0 … for loop files, and the name in the disk's label for disks.
	Name string
	// Type is the type to offer. Empty means SSD for a loop file, and the type
	// that the kernel reports for a disk.
	Type workload.DeviceType
	// LoopSize is the size of the loop file in bytes; it counts when the pool is made.
	LoopSize uint64
	// Disk is the path of a whole disk.
	Disk string
}

// ParseDisk reads "/dev/sdb", "SSD:/dev/sdb" or "HDD:/dev/sdb".
func ParseDisk(text string) (PoolSpec, error) {
	kind, path, err := splitType(text)
	if err != nil {
		return PoolSpec{}, err
	}
	spec := PoolSpec{Type: kind, Disk: path}
	return spec, spec.Validate()
}

// ParseLoop reads a size and optionally a type: "20GiB", "HDD:512MiB".
func ParseLoop(text string) (PoolSpec, error) {
	kind, size, err := splitType(text)
	if err != nil {
		return PoolSpec{}, err
	}
	if kind == "" {
		kind = workload.SSD
	}
	bytes, err := bytesize.Parse(size)
	if err != nil {
		return PoolSpec{}, err
	}
	spec := PoolSpec{Type: kind, LoopSize: bytes}
	return spec, spec.Validate()
}

func splitType(text string) (workload.DeviceType, string, error) {
	kind, rest, found := strings.Cut(text, ":")
	if !found {
		return "", text, nil
	}
	switch t := workload.DeviceType(strings.ToUpper(kind)); t {
	case workload.SSD, workload.HDD:
		return t, rest, nil
	}
	return "", "", node.Errorf(node.Invalid, "cannot read pool %q: type is %q, must be SSD or HDD", text, kind)
}

// Validate checks s and names the wrong field, its value and the allowed values.
func (s PoolSpec) Validate() error {
	if s.Name != "" && !validPoolName(s.Name) {
		return node.Errorf(node.Invalid, "cannot use pool: name is %q, must be 1 to 32 of a-z, 0-9 and -, and not begin with -", s.Name)
	}
	if s.Type != "" && s.Type != workload.SSD && s.Type != workload.HDD {
		return node.Errorf(node.Invalid, "cannot use pool %s: type is %q, must be SSD or HDD", s.Name, s.Type)
	}
	if (s.Disk == "") == (s.LoopSize == 0) {
		return node.Errorf(node.Invalid, "cannot use pool %s: it must have either a disk or a loop size", s.Name)
	}
	if s.Disk != "" && !filepath.IsAbs(s.Disk) {
		return node.Errorf(node.Invalid, "cannot use pool %s: disk is %q, must be an absolute path", s.Name, s.Disk)
	}
	if s.Disk == "" && s.LoopSize < minLoopSize {
		return node.Errorf(node.Invalid, "cannot use pool %s: size is %s, must be at least %s", s.Name, bytesize.Format(s.LoopSize), bytesize.Format(minLoopSize))
	}
	if s.LoopSize > 1<<62 {
		return node.Errorf(node.Invalid, "cannot use pool %s: size is %d bytes, must be at most %d", s.Name, s.LoopSize, uint64(1)<<62)
	}
	return nil
}

func validPoolName(name string) bool {
	if len(name) > 32 || strings.HasPrefix(name, "-") {
		return false
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && name != ""
}

// nameLoops gives loop pools without a name the first free one of their type.
func nameLoops(specs []PoolSpec) []PoolSpec {
	taken := map[string]bool{}
	for _, s := range specs {
		taken[s.Name] = true
	}
	out := make([]PoolSpec, len(specs))
	for i, s := range specs {
		if s.Disk == "" && s.Type == "" {
			s.Type = workload.SSD
		}
		for n := 0; s.Disk == "" && s.Name == ""; n++ {
			if name := strings.ToLower(string(s.Type)) + strconv.Itoa(n); !taken[name] {
				s.Name, taken[name] = name, true
			}
		}
		out[i] = s
	}
	return out
}

const nameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// checkName refuses text that must not become a file name.
func checkName(what, name string) error {
	if name == "" || len(name) > 64 || strings.Trim(name, nameChars) != "" || name[0] == '.' || name[0] == '-' {
		if len(name) > 100 {
			name = name[:100] + "…"
		}
		return node.Errorf(node.Invalid, "cannot use %s: name is %q, must be 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-', and not begin with '.' or '-'", what, name)
	}
	return nil
}
