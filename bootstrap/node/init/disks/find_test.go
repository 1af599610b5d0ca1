package disks

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/croft-edge/croft/modules/storage/loop"
)

// sysfs writes files below a folder.
func sysfs(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestIDs holds names against those that udev makes.
func TestIDs(t *testing.T) {
	sys := sysfs(t, map[string]string{
		"vda/serial":            "disk0\n",
		"vdb/size":              "8\n",
		"nvme0n1/wwid":          "eui.0025388b91000000\n",
		"nvme0n1/device/serial": "S4EWNF0M123456X     \n",
		"nvme0n1/device/model":  "Samsung SSD 970 EVO Plus 1TB            \n",
		"sda/device/wwid":       "naa.5000c500a1b2c3d4\n",
		"sda/device/vendor":     "ATA     \n",
		"sda/device/model":      "ST4000DM004-2CV1\n",
		"sda/device/vpd_pg80":   "\x00\x80\x00\x14            WFN0ABCD",
		"sdb/device/vendor":     "QEMU\n",
		"sdb/device/model":      "../../x\n",
		"sdb/device/vpd_pg80":   "\x00\x80\x00\x04a/b\n",
		"sdc/device/vpd_pg80":   "\x00",
		"mmcblk0/device/name":   "SD32G\n",
		"mmcblk0/device/serial": "0x12345678\n",
	})
	for name, want := range map[string][]string{
		"vda": {"virtio-disk0"}, "vdb": nil,
		"nvme0n1": {"nvme-eui.0025388b91000000", "nvme-Samsung_SSD_970_EVO_Plus_1TB_S4EWNF0M123456X"},
		"sda":     {"wwn-0x5000c500a1b2c3d4", "ata-ST4000DM004-2CV1_WFN0ABCD"},
		"sdb":     {"scsi-....x_ab"}, "sdc": nil, "mmcblk0": {"mmc-SD32G_0x12345678"},
	} {
		if got := ids(filepath.Join(sys, name)); !slices.Equal(got, want) {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// TestFind reads a sysfs whose disk is a real loop device under another name.
func TestFind(t *testing.T) {
	sys := sysfs(t, map[string]string{
		"block/vda/size": "2097152", "block/vda/serial": "root", "block/vda/vda2/partition": "2",
		"block/sr0/size": "100", "block/loop0/size": "100", "block/dm-0/size": "100",
		"block/sda/size": "0", "block/sda/removable": "1",
	})
	found, err := Find(t.Context(), sys, "/dev/vda2")
	if err != nil || len(found) != 2 || found[0].Name != "sda" || found[0].Bytes != 0 || !found[1].Boot || found[1].Bytes != 1<<30 {
		t.Errorf("%+v, %v", found, err)
	}
	if got := found[1].Names(); !slices.Equal(got, []string{"/dev/vda", byID + "/virtio-root"}) || found[1].Path() != byID+"/virtio-root" || found[0].Path() != "/dev/sda" {
		t.Errorf("the names are %q", got)
	}
	if _, err := Find(t.Context(), t.TempDir(), ""); err == nil {
		t.Error("a machine without sysfs has disks")
	}
}

// TestLook tells what is on a real device.
func TestLook(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 8<<20); err != nil {
		t.Fatal(err)
	}
	device, err := loop.Attach(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	d := Disk{Name: filepath.Base(device.Path())}
	if d.look(t.Context()); d.Holds != "" || d.Unread != "" {
		t.Errorf("an empty disk is %+v", d)
	}
	if err := os.WriteFile(device.Path(), []byte("something"), 0o600); err != nil {
		t.Fatal(err)
	}
	if d.look(t.Context()); d.Holds == "" || d.Pool != "" {
		t.Errorf("a disk with something on it is %+v", d)
	}
}
