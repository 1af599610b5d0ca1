package media

import (
	"context"
	_ "embed" // the example of settings
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/croft-edge/croft/bootstrap/node/media/gpt"
	"github.com/croft-edge/croft/internal/grubenv"
)

//go:embed croft.yaml.example
var exampleConfig []byte

// Sizes on croft.img in sectors. Partitions begin at whole MiB.
const (
	mebibyte = 1 << 20 / gpt.Sector
	// bootRoom is beside the slots on the boot partition, for GRUB and the file system's own tables.
	bootRoom   = 48 * mebibyte
	configRoom = 8 * mebibyte
)

// diskTable is croft.img's partition table. Its identifiers are always the same: a node tells its disks apart by other
// means, and boots from the disk that its firmware chose.
func diskTable(slot int64) gpt.Table {
	slotSectors := (uint64(slot)/gpt.Sector + mebibyte) / mebibyte * mebibyte
	id := func(name string) uuid.UUID { return uuid.NewSHA1(uuid.NameSpaceURL, []byte("croft boot disk: "+name)) }
	t := gpt.Table{ID: id("disk"), Partitions: []gpt.Partition{
		{Type: uuid.MustParse("21686148-6449-6E6F-744E-656564454649"), ID: id("bios"), Name: "croft-bios", Sectors: mebibyte},
		{Type: uuid.MustParse(espType), ID: id("boot"), Name: "croft-boot", Sectors: 2*slotSectors + bootRoom},
		{Type: uuid.MustParse("EBD0A0A2-B9E5-4433-87C0-68B6B72699C7"), ID: id("config"), Name: ConfigName, Sectors: configRoom},
	}}
	next := uint64(mebibyte)
	for i := range t.Partitions {
		t.Partitions[i].Start = next
		next += t.Partitions[i].Sectors
	}
	t.Sectors = next + mebibyte
	return t
}

// makeDisk makes croft.img.
func (b *builder) makeDisk(ctx context.Context) error {
	slot, err := b.slotSize()
	if err != nil {
		return err
	}
	table := diskTable(slot)
	disk, err := os.Create(filepath.Join(b.work, Disk))
	if err != nil {
		return err
	}
	defer disk.Close()
	if err := disk.Truncate(int64(table.Sectors) * gpt.Sector); err != nil {
		return err
	}
	if err := gpt.Write(disk, table); err != nil {
		return err
	}
	if err := b.writeBootCode(disk, table.Partitions[0]); err != nil {
		return err
	}
	if err := b.fillBoot(ctx, disk.Name(), table.Partitions[1]); err != nil {
		return err
	}
	return b.fillConfig(ctx, disk.Name(), table.Partitions[2])
}

// fillBoot makes the file system that the machine boots from.
func (b *builder) fillBoot(ctx context.Context, disk string, p gpt.Partition) error {
	var block grubenv.Block
	if err := block.Set("slot", "a"); err != nil {
		return err
	}
	content, err := block.Encode()
	if err != nil {
		return err
	}
	environment, err := b.write("grubenv", content)
	if err != nil {
		return err
	}
	f := fat{builder: b, file: disk, start: p.Start}
	if err := f.format(ctx, p.Sectors, 32, Label, "C20F7B07"); err != nil {
		return err
	}
	if err := f.folders(ctx, "/EFI", "/EFI/BOOT", "/boot", "/boot/grub", "/croft", "/croft/a", "/croft/b"); err != nil {
		return err
	}
	if err := f.add(ctx, "/EFI/BOOT", file{name: "BOOTX64.EFI", from: b.efi}); err != nil {
		return err
	}
	// The environment block comes first, so that it lies in one piece before anything was ever removed.
	if err := f.add(ctx, "/boot/grub", append([]file{environment}, b.grub...)...); err != nil {
		return err
	}
	return f.add(ctx, "/croft/a", b.image...)
}

// fillConfig makes the file system for a node's settings.
func (b *builder) fillConfig(ctx context.Context, disk string, p gpt.Partition) error {
	example, err := b.write("croft.yaml.example", exampleConfig)
	if err != nil {
		return err
	}
	f := fat{builder: b, file: disk, start: p.Start}
	if err := f.format(ctx, p.Sectors, 16, ConfigLabel, "C20F7C06"); err != nil {
		return err
	}
	return f.add(ctx, "", example)
}
