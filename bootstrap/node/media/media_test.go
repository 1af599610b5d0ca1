package media

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-edge/croft/bootstrap/node/media/gpt"
	"github.com/croft-edge/croft/internal/grubenv"
	"github.com/croft-edge/croft/pkg/fileid"
)

// imageFolder makes a folder with an image of nothing, signed or not.
func imageFolder(t *testing.T, signed bool) string {
	t.Helper()
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	for name, size := range map[string]int{"vmlinuz": 300_001, "initrd": 70_000, "root.squashfs": 1 << 20, "image.json": 700, "image.json.sig": 64} {
		if name == "image.json.sig" && !signed {
			continue
		}
		content := make([]byte, size)
		for i := range content {
			content[i] = byte(random.Uint32())
		}
		write(t, filepath.Join(dir, name), content)
	}
	return dir
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func sum(t *testing.T, path string) string {
	t.Helper()
	out, err := fileid.Sum(path)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}

// small is a Config for a small disk.
func small(folder string) Config {
	return Config{Folder: folder, Arguments: "quiet panic=10", SlotSize: 4 << 20}
}

// TestBuild makes media of a signed image, and reads them back with other programs.
func TestBuild(t *testing.T) {
	folder := imageFolder(t, true)
	c := small(folder)
	if err := Build(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	t.Run("the same again", func(t *testing.T) {
		again := c
		again.Out = t.TempDir()
		for _, name := range []string{"vmlinuz", "initrd"} { // another mode and time make no difference
			if err := os.Chmod(filepath.Join(folder, name), 0o444); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("TZ", "Asia/Tokyo")
		t.Setenv("SOURCE_DATE_EPOCH", "1234567890")
		if err := Build(t.Context(), again); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{ISO, Disk, Script} {
			if a, b := sum(t, filepath.Join(folder, name)), sum(t, filepath.Join(again.Out, name)); a != b {
				t.Errorf("%s differs", name)
			}
			if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.Mode() != 0o644 {
				t.Errorf("%s: %v, %v", name, info.Mode(), err)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(again.Out, "*")); len(left) != 3 {
			t.Errorf("the folder has %v", left)
		}
		if left, _ := filepath.Glob(filepath.Join(again.Out, ".*")); len(left) != 0 {
			t.Errorf("left over: %v", left)
		}
	})
	t.Run("disk", func(t *testing.T) { checkDisk(t, filepath.Join(folder, Disk), folder) })
	t.Run("ISO", func(t *testing.T) { checkISO(t, filepath.Join(folder, ISO), folder) })
	t.Run("script", func(t *testing.T) {
		script := string(read(t, filepath.Join(folder, Script)))
		for _, want := range []string{
			"#!ipxe\n", "\n#chain image-new/boot.ipxe ||\n",
			"\nkernel --name vmlinuz vmlinuz initrd=initrd initrd=root.squashfs initrd=image.json initrd=image.json.sig quiet panic=10 ${args} || goto failed\n",
			"\ninitrd --name initrd initrd || goto failed\ninitrd --name root.squashfs root.squashfs /image/root.squashfs mode=0444 || goto failed\n",
			"\ninitrd --name image.json.sig image.json.sig /image/image.json.sig mode=0444 || goto failed\nboot || goto failed\n",
		} {
			if !strings.Contains(script, want) {
				t.Errorf("%q is not in\n%s", want, script)
			}
		}
	})
}

func checkDisk(t *testing.T, disk, folder string) {
	if out := command(t, "sfdisk", "--verify", disk); !strings.Contains(out, "No errors detected") {
		t.Errorf("sfdisk --verify: %s", out)
	}
	dump := command(t, "sfdisk", "--dump", disk)
	table := diskTable(4 << 20)
	for i, want := range []string{`type=21686148-6449-6E6F-744E-656564454649`, `type=` + espType, `name="croft-config"`} {
		p := table.Partitions[i]
		line := fmt.Sprintf("%s%d : start=%12d, size=%12d, ", disk, i+1, p.Start, p.Sectors)
		if at := strings.Index(dump, line); at < 0 || !strings.Contains(strings.SplitN(dump[at:], "\n", 2)[0], want) {
			t.Errorf("%s%s is not in\n%s", line, want, dump)
		}
	}
	content := read(t, disk)
	if got := binary.LittleEndian.Uint64(content[0x5c:]); got != table.Partitions[0].Start {
		t.Errorf("the MBR loads sector %d", got)
	}
	for i, label := range map[int]string{1: Label, 2: ConfigLabel} {
		p := table.Partitions[i]
		part := filepath.Join(t.TempDir(), "part")
		write(t, part, content[p.Start*gpt.Sector:(p.Start+p.Sectors)*gpt.Sector])
		if out := command(t, "fsck.fat", "-n", "-v", part); strings.Contains(out, "differ") {
			t.Errorf("fsck.fat: %s", out)
		}
		if out := command(t, "blkid", "-p", "-o", "value", "-s", "LABEL", part); strings.TrimSpace(out) != label {
			t.Errorf("the label of partition %d is %q", i+1, out)
		}
		if i == 1 && command(t, "blkid", "-p", "-o", "value", "-s", "VERSION", part) != "FAT32\n" {
			t.Error("the boot partition is no FAT32")
		}
	}
	at := func(i int, path string) []byte {
		to := filepath.Join(t.TempDir(), "file")
		command(t, "mcopy", "-n", "-i", fmt.Sprintf("%s@@%d", disk, table.Partitions[i].Start*gpt.Sector), "::"+path, to)
		return read(t, to)
	}
	checkFiles(t, folder, func(path string) []byte { return at(1, path) })
	if got := at(1, "/EFI/BOOT/BOOTX64.EFI"); !bytes.HasPrefix(got, []byte("MZ")) {
		t.Error("BOOTX64.EFI is no program for UEFI")
	}
	if block, err := grubenv.Parse(at(1, "/boot/grub/grubenv")); err != nil {
		t.Error(err)
	} else if slot, _ := block.Get("slot"); slot != "a" {
		t.Errorf("the slot is %q", slot)
	}
	if got := at(2, "/croft.yaml.example"); !bytes.Equal(got, exampleConfig) {
		t.Errorf("the example is %q", got)
	}
	boot := fmt.Sprintf("%s@@%d", disk, table.Partitions[1].Start*gpt.Sector)
	if out := command(t, "mdir", "-b", "-i", boot, "::/croft/"); !strings.Contains(out, "::/croft/b/") {
		t.Errorf("/croft has %s", out)
	}
	big := filepath.Join(t.TempDir(), "big") // slot b has the room that was asked for
	write(t, big, make([]byte, 4<<20))
	full := filepath.Join(t.TempDir(), "disk")
	write(t, full, content)
	command(t, "mcopy", "-i", fmt.Sprintf("%s@@%d", full, table.Partitions[1].Start*gpt.Sector), big, "::/croft/b/root.squashfs")
}

func checkFiles(t *testing.T, folder string, at func(string) []byte) {
	t.Helper()
	for _, name := range []string{"vmlinuz", "initrd", "root.squashfs", "image.json", "image.json.sig"} {
		if !bytes.Equal(at("/croft/a/"+name), read(t, filepath.Join(folder, name))) {
			t.Errorf("/croft/a/%s differs", name)
		}
	}
	if !bytes.Equal(at("/boot/grub/grub.cfg"), grubConfig) {
		t.Error("/boot/grub/grub.cfg differs")
	}
	if block, err := grubenv.Parse(at("/croft/a/cmdline")); err != nil {
		t.Error(err)
	} else if got, _ := block.Get("cmdline"); got != "quiet panic=10" {
		t.Errorf("the image's arguments are %q", got)
	}
}

func checkISO(t *testing.T, iso, folder string) {
	out := command(t, "xorriso", "-indev", iso, "-report_el_torito", "plain", "-report_system_area", "plain", "-pvd_info")
	for _, want := range []string{
		"El Torito boot img :   1  BIOS  y   none", "El Torito boot img :   2  UEFI  y   none",
		"El Torito img path :   1  /boot/grub/eltorito.img", "boot-info-table grub2-boot-info",
		"grub2-mbr", "protective-msdos-label", "MBR partition      :   2   0x80  0x00", "GPT partition name :   1  490053004f0039003600360030",
		"GPT type GUID      :   2  28732ac11ff8d211ba4b00a0c93ec93b",
		"Volume Id    : CROFT-BOOT",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in xorriso's report:\n%s", want, out)
		}
	}
	if out := command(t, "blkid", "-p", "-o", "export", iso); !strings.Contains(out, "LABEL=CROFT-BOOT") {
		t.Errorf("blkid sees %s", out)
	}
	if out := command(t, "sfdisk", "--verify", iso); !strings.Contains(out, "No errors detected") {
		t.Errorf("sfdisk --verify: %s", out)
	}
	dir := t.TempDir()
	command(t, "xorriso", "-osirrox", "on", "-indev", iso, "-extract", "/", filepath.Join(dir, "all"))
	checkFiles(t, folder, func(path string) []byte { return read(t, filepath.Join(dir, "all", path)) })
}

// TestUnsigned makes media without a signature and without arguments, and in slots of the default size.
func TestUnsigned(t *testing.T) {
	c := Config{Folder: imageFolder(t, false), Out: t.TempDir()}
	if err := Build(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	script := string(read(t, filepath.Join(c.Out, Script)))
	if strings.Contains(script, "image.json.sig") || !strings.Contains(script, " initrd=image.json ${args} ||") {
		t.Errorf("the script is\n%s", script)
	}
	info, err := os.Stat(filepath.Join(c.Out, Disk))
	if err != nil || info.Size() < 2*leastSlot {
		t.Errorf("the disk has %d bytes, %v", info.Size(), err)
	}
	table := diskTable(leastSlot)
	listed := command(t, "mdir", "-/", "-b", "-i", fmt.Sprintf("%s@@%d", filepath.Join(c.Out, Disk), table.Partitions[1].Start*gpt.Sector), "::/croft")
	if strings.Contains(listed, "cmdline") || strings.Contains(listed, "sig") || !strings.Contains(listed, "root.squashfs") {
		t.Errorf("the disk has %s", listed)
	}
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil   func(c *Config)
		refused string
	}{
		"no kernel":      {func(c *Config) { os.Remove(filepath.Join(c.Folder, "vmlinuz")) }, "vmlinuz"},
		"an empty file":  {func(c *Config) { write(t, filepath.Join(c.Folder, "initrd"), nil) }, "initrd: it must be a file with content"},
		"a small slot":   {func(c *Config) { c.SlotSize = 1 << 20 }, "into a slot of 1048576"},
		"no GRUB":        {func(c *Config) { c.Grub = c.Folder }, "grub-pc-bin"},
		"no folder":      {func(c *Config) { c.Folder = filepath.Join(c.Folder, "none") }, "no such file"},
		"bad arguments":  {func(c *Config) { c.Arguments = "a\nb" }, "control characters"},
		"many arguments": {func(c *Config) { c.Arguments = strings.Repeat("a", 1000) }, "1009 bytes, 999 are allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			config := small(imageFolder(t, true))
			folder := config.Folder
			c.spoil(&config)
			if err := Build(t.Context(), config); err == nil || !strings.HasPrefix(err.Error(), "cannot make boot media") || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("the error is %v, must have %q", err, c.refused)
			}
			left, _ := filepath.Glob(filepath.Join(folder, "*croft*"))
			hidden, _ := filepath.Glob(filepath.Join(folder, ".*"))
			if len(left)+len(hidden) > 0 {
				t.Errorf("left over: %v %v", left, hidden)
			}
		})
	}
}

func TestPatches(t *testing.T) {
	if _, err := patchedBoot(make([]byte, 511), 2048); err == nil {
		t.Error("a boot.img of 511 bytes is taken")
	}
	core := make([]byte, 1500)
	out, err := patchedCore(core, 2048, 3)
	if err != nil || len(out) != 1536 || binary.LittleEndian.Uint64(out[0x1f4:]) != 2049 ||
		binary.LittleEndian.Uint16(out[0x1fc:]) != 2 || binary.LittleEndian.Uint16(out[0x1fe:]) != 0x820 {
		t.Errorf("the list of blocks is % x, %v", out[0x1f4:0x200], err)
	}
	if _, err := patchedCore(core, 2048, 2); err == nil {
		t.Error("a core image that is too large is taken")
	}
}
