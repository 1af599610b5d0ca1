package media

import (
	"context"
	"os"
	"path/filepath"
)

const (
	// espType is the type of an EFI system partition.
	espType = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"
	// espSize is the size in bytes of croft.iso's, which has GRUB only.
	espSize = 4 << 20
	// isoDate is epoch as xorriso takes it.
	isoDate = "1980010100000000"
)

// makeISO makes croft.iso. Its EFI system partition lies behind the ISO 9660 file system, so that firmware finds it
// through the CD's boot catalog and, on a USB stick, through the partition table; that table's first partition is the
// file system itself.
func (b *builder) makeISO(ctx context.Context) error {
	esp := filepath.Join(b.work, "esp.img")
	if err := b.makeESP(ctx, esp); err != nil {
		return err
	}
	args := []string{
		"-as", "mkisofs", "-o", filepath.Join(b.work, ISO), "-quiet", "-iso-level", "3", "-volid", Label, "-r",
		"--set_all_file_dates", isoDate, "--modification-date=" + isoDate, "--gpt_disk_guid", "9f0f4f5c2b7b4c6f8f53c20f7b071501",
		"-partition_offset", "16", "--protective-msdos-label", "--mbr-force-bootable",
		"--grub2-mbr", filepath.Join(b.config.Grub, "i386-pc", "boot_hybrid.img"),
		"-append_partition", "2", espType, esp, "-appended_part_as_gpt", "-iso_mbr_part_type", "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7",
		"-c", "boot/boot.cat",
		"-b", "boot/grub/eltorito.img", "-no-emul-boot", "-boot-load-size", "4", "-boot-info-table", "--grub2-boot-info",
		"-eltorito-alt-boot", "-e", "--interval:appended_partition_2:all::", "-no-emul-boot",
		"-graft-points", "boot/grub/eltorito.img=" + b.cd,
	}
	for _, f := range b.grub {
		args = append(args, "boot/grub/"+f.name+"="+f.from)
	}
	for _, f := range b.image {
		args = append(args, "croft/a/"+f.name+"="+f.from)
	}
	return b.tool(ctx, "xorriso", args...)
}

// makeESP makes a FAT file system with GRUB for UEFI.
func (b *builder) makeESP(ctx context.Context, path string) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := out.Truncate(espSize); err != nil {
		return err
	}
	f := fat{builder: b, file: path}
	if err := f.format(ctx, espSize/512, 12, "CROFT-EFI", "C20F7EF1"); err != nil {
		return err
	}
	if err := f.folders(ctx, "/EFI", "/EFI/BOOT"); err != nil {
		return err
	}
	return f.add(ctx, "/EFI/BOOT", file{name: "BOOTX64.EFI", from: b.efi})
}
