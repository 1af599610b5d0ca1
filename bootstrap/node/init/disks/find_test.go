package disks

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/modules/storage/nodestate"
	"github.com/croft-edge/croft/pkg/loop"
)

// tree writes files below a new folder; a text that begins with -> is a link.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if to, link := strings.CutPrefix(text, "->"); link {
			check(t, os.Symlink(to, path))
			continue
		}
		check(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return root
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func bytesOf(t *testing.T, text string) string {
	t.Helper()
	raw, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	check(t, err)
	return string(raw)
}

func page83(designators ...string) string {
	body := strings.Join(designators, "")
	return "\x00\x83" + string([]byte{byte(len(body) >> 8), byte(len(body))}) + body
}

func part83(kind byte, association byte, value string) string {
	return string([]byte{2, association<<4 | kind, 0, byte(len(value))}) + value
}

func TestNamesThatStay(t *testing.T) {
	const vpd = "device/vpd_pg83"
	model := "Samsung SSD 860 EVO 500GB"
	ata := "ATA     " + model + strings.Repeat(" ", 40-len(model)) + "     S3Z2NB0K123456"
	for name, c := range map[string]struct {
		disk  string
		files map[string]string
		want  []string
	}{
		"virtio":                {"vda", map[string]string{"serial": "disk 1/a\n"}, []string{"virtio-disk_1_a"}},
		"virtio without serial": {"vda", map[string]string{"serial": "\n"}, nil},
		"nvme": {"nvme0n1", map[string]string{"wwid": "eui.0025385b71b0a1c2\n", "device/model": "Samsung SSD 970   EVO \n", "device/serial": "S466 \n"},
			[]string{"nvme-eui.0025385b71b0a1c2", "nvme-Samsung_SSD_970_EVO_S466"}},
		"mmc": {"mmcblk0", map[string]string{"device/name": "SD16G", "device/serial": "0x12ab"}, []string{"mmc-SD16G_0x12ab"}},
		"sata": {"sda", map[string]string{"device/vendor": "ATA     \n", "device/model": "Samsung SSD 860 \n", "device/vpd_pg80": "\x00\x80\x00\x04S3Z2",
			vpd: page83(part83(0, 0, "S3Z2NB0K123456"), part83(1, 0, ata), part83(3, 0, bytesOf(t, "5002538e40 123456")))},
			[]string{"wwn-0x5002538e40123456", "ata-Samsung_SSD_860_EVO_500GB_S3Z2NB0K123456", "scsi-0ATA_Samsung_SSD_860_S3Z2NB0K123456", "scsi-35002538e40123456"}},
		"sas": {"sdb", map[string]string{"device/vendor": "SEAGATE \n", "device/model": "ST4000\n", "device/vpd_pg80": "\x00\x80\x00\x04 Z1 ",
			vpd: page83(part83(3, 0, bytesOf(t, "5000c50012345678")), part83(3, 1, bytesOf(t, "5000c50012345679")))},
			[]string{"wwn-0x5000c50012345678", "scsi-35000c50012345678", "scsi-SSEAGATE_ST4000_Z1"}},
		"qemu's scsi-hd": {"sda", map[string]string{"device/vendor": "QEMU\n", "device/model": "QEMU HARDDISK\n", vpd: page83(part83(0, 0, "drive-scsi0"))},
			[]string{"scsi-0QEMU_QEMU_HARDDISK_drive-scsi0"}},
		"torn pages": {"sda", map[string]string{vpd: "\x00\x83\x00\xff\x02\x03\x00\x40ab", "device/vpd_pg80": "\x00\x80\x00\xff"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ids(tree(t, c.files), c.disk); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestUSBDisksAreNamedByTheirStick(t *testing.T) {
	root := tree(t, map[string]string{
		"devices/usb1/1-1/idVendor": "0781", "devices/usb1/1-1/serial": "4C53\n", "devices/usb1/1-1/host/target/vendor": "SanDisk ",
		"devices/usb1/1-1/host/target/model": "Ultra  Fit", "block/sda/device": "->../../devices/usb1/1-1/host/target",
	})
	if got := ids(filepath.Join(root, "block/sda"), "sda"); !slices.Equal(got, []string{"usb-SanDisk_Ultra_Fit_4C53"}) {
		t.Errorf("%q", got)
	}
}

func TestWhichDisksThereAre(t *testing.T) {
	files := map[string]string{}
	for _, name := range []string{"vda", "vdb", "vdc", "vdd", "vde", "vdf", "vdg", "loop0", "ram0", "zram0", "dm-0", "md127", "sr0", "mmcblk0", "mmcblk0boot0"} {
		files["block/"+name+"/size"], files["block/"+name+"/serial"] = "2048\n", "s-"+name
	}
	files["block/vda/vda1/size"] = "100"
	files["block/vdb/ro"], files["block/vdb/serial"] = "1", "same"
	files["block/vdc/size"], files["block/vdc/serial"] = "0", "same"
	files["block/vdd/holders/md127"] = ""
	files["block/vde/vde2/holders/dm-0"] = ""
	files["block/vdf/removable"] = "1\n"
	f := &Finder{Sys: tree(t, files), Boot: "/dev/vda1", Mounts: t.TempDir()}
	all, err := f.list()
	check(t, err)
	want := map[string]string{"vda": "the machine was booted from it", "vdb": "it can't be written to", "vdc": "it has no medium", "vdd": "it is a part of md127", "vde": "it is a part of dm-0"}
	if len(all) != 8 {
		t.Errorf("there are %+v", all)
	}
	for _, d := range all {
		if d.Unusable != want[d.Name] || d.Removable != (d.Name == "vdf") {
			t.Errorf("%+v, want %q", d, want[d.Name])
		}
		if shared := d.Name == "vdb" || d.Name == "vdc"; shared != (len(d.IDs) == 0) && d.Name != "mmcblk0" {
			t.Errorf("%s has the names %q", d.Name, d.IDs)
		}
	}
}

func TestLinks(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "disk", "by-id")
	for _, all := range [][]Disk{
		{disk("vda", "", ""), disk("vdb", "", "")},
		{{Name: "vdb", IDs: []string{"virtio-vda", "virtio-x"}}},
		{{Name: "vdb", IDs: []string{"virtio-vda", "virtio-x"}}},
	} {
		check(t, Link(folder, all))
		entries, err := os.ReadDir(folder)
		check(t, err)
		if len(entries) != 2 {
			t.Errorf("there are %v", entries)
		}
		for _, d := range all {
			for _, id := range d.IDs {
				if to, err := os.Readlink(filepath.Join(folder, id)); err != nil || to != "../../"+d.Name {
					t.Errorf("%s is %s, %v", id, to, err)
				}
			}
		}
	}
}

// attached is a block device of a sparse file, by a name in /dev that isn't a loop device's.
func attached(t *testing.T) (name, device string) {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "croft-disks-")
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(dir)) })
	path := filepath.Join(dir, "disk")
	check(t, os.WriteFile(path, nil, 0o600))
	check(t, os.Truncate(path, 256<<20))
	d, err := loop.Attach(t.Context(), path)
	check(t, err)
	t.Cleanup(func() { check(t, d.Close()) })
	name = "crofttest" + strings.ToLower(rand.Text()[:8])
	check(t, os.Symlink(d.Path(), "/dev/"+name))
	t.Cleanup(func() { check(t, os.Remove("/dev/"+name)) })
	return name, d.Path()
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %s %v", name, out, err)
	}
}

func TestWhatDisksHold(t *testing.T) {
	files := map[string]string{}
	want := map[string]nodestate.Kind{}
	for kind, fill := range map[nodestate.Kind]func(device string){
		nodestate.Empty:      func(string) {},
		nodestate.Other:      func(d string) { run(t, "mkfs.ext4", "-q", d) },
		nodestate.Unfinished: func(d string) { run(t, "mkfs.btrfs", "-q", "-L", "croft-ssd-a", d) },
		nodestate.Unknown: func(d string) {
			run(t, "mkfs.btrfs", "-q", "-L", "croft-ssd-b", d)
			run(t, "dd", "if=/dev/zero", "of="+d, "bs=4096", "seek=16", "count=1", "conv=fsync")
		},
	} {
		name, device := attached(t)
		fill(device)
		files["block/"+name+"/size"], want[name] = "524288", kind
	}
	root := tree(t, files)
	f := &Finder{Sys: root, Mounts: t.TempDir()}
	for range 2 {
		all, err := f.Find(t.Context())
		check(t, err)
		if len(all) != len(want) {
			t.Errorf("there are %+v", all)
		}
		for _, d := range all {
			if d.Holds.Kind != want[d.Name] {
				t.Errorf("%s holds %+v, want %s", d.Name, d.Holds, want[d.Name])
			}
		}
	}
}

// TestADiskThatCouldNotBeReadOnce is looked at again, though no disk came or went: it may be the one that the node is to be made on.
func TestADiskThatCouldNotBeReadOnce(t *testing.T) {
	name, device := attached(t)
	file := backing(t, filepath.Base(device))
	info, err := os.Stat(file)
	check(t, err)
	check(t, os.Truncate(file, info.Size()-64<<10)) // a loop device can't be read where its file has ended
	f := &Finder{Sys: tree(t, map[string]string{"block/" + name + "/size": "524288"}), Mounts: t.TempDir()}
	for _, want := range []nodestate.Kind{nodestate.Other, nodestate.Empty} {
		all, err := f.Find(t.Context())
		check(t, err)
		if len(all) != 1 || all[0].Holds.Kind != want {
			t.Errorf("%s holds %+v, want %s", device, all, want)
		}
		check(t, os.Truncate(file, info.Size()))
	}
}

// backing is the file of a loop device.
func backing(t *testing.T, name string) string {
	t.Helper()
	file, err := os.ReadFile("/sys/block/" + name + "/loop/backing_file")
	check(t, err)
	return strings.TrimSpace(string(file))
}
