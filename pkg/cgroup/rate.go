package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/mounts"
)

// Rate limits a group's use of a disk in a second; 0 is no limit. Version 1 counts
// direct and synchronous writes only: data written through the page cache isn't
// charged to the group any more when it goes to the disk.
type Rate struct {
	// ReadBytes and WriteBytes are bytes, ReadOps and WriteOps requests of the disk.
	ReadBytes, WriteBytes, ReadOps, WriteOps uint64
}

// ways are the ways to limit the rate on a disk, "MAJOR:MINOR". Rates of 0 are left
// as they are: a new group has none.
func (r Rate) ways(version int, disk string) []Way {
	var all []string
	var way Way
	for _, one := range []struct {
		value  uint64
		v1, v2 string
	}{
		{r.ReadBytes, "read_bps_device", "rbps"}, {r.WriteBytes, "write_bps_device", "wbps"},
		{r.ReadOps, "read_iops_device", "riops"}, {r.WriteOps, "write_iops_device", "wiops"},
	} {
		if one.value == 0 {
			continue
		}
		all = append(all, fmt.Sprintf("%s=%d", one.v2, one.value))
		way = append(way, Control{"blkio.throttle." + one.v1, disk + " " + strconv.FormatUint(one.value, 10)})
	}
	if version == 2 {
		way = Way{{"io.max", disk + " " + strings.Join(all, " ")}}
	}
	return []Way{way}
}

// Throttle limits the rate of an existing group on each of the disks. It reports
// whether it succeeded on all.
func (g Group) Throttle(r Rate, disks []string) bool {
	if r == (Rate{}) {
		return true
	}
	for _, disk := range disks {
		holds := false
		for _, p := range g.places {
			if p.has("io") {
				holds = Hold(p.dir, r.ways(p.version(), disk)) || holds
			}
		}
		if !holds {
			return false
		}
	}
	return true
}

// Disks are the whole disks, "MAJOR:MINOR", of the file systems with these paths,
// each once. File systems without a disk, such as a tmpfs, are left out.
func Disks(paths ...string) ([]string, error) {
	mounted, err := mounts.Read()
	if err != nil {
		return nil, err
	}
	var out []string
	seen := map[string]bool{}
	for _, path := range paths {
		source, longest := "", 0
		for _, m := range mounted {
			inside := m.Path == "/" || path == m.Path || strings.HasPrefix(path, m.Path+"/")
			if inside && len(m.Path) >= longest {
				source, longest = m.Source, len(m.Path)
			}
		}
		disk := diskOf(source)
		if disk != "" && !seen[disk] {
			seen[disk] = true
			out = append(out, disk)
		}
	}
	return out, nil
}

// diskOf is the whole disk of a device's file, empty when it is none.
func diskOf(source string) string {
	var info unix.Stat_t
	if !strings.HasPrefix(source, "/dev/") || unix.Stat(source, &info) != nil || info.Mode&unix.S_IFMT != unix.S_IFBLK {
		return ""
	}
	number := fmt.Sprintf("%d:%d", unix.Major(info.Rdev), unix.Minor(info.Rdev))
	at := filepath.Join("/sys/dev/block", number)
	if _, err := os.Stat(filepath.Join(at, "partition")); err != nil {
		return number
	}
	folder, err := filepath.EvalSymlinks(at)
	if err != nil {
		return ""
	}
	whole, err := os.ReadFile(filepath.Join(filepath.Dir(folder), "dev"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(whole))
}
