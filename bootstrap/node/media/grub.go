package media

import (
	"context"
	_ "embed" // GRUB's configuration
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"github.com/croft-edge/croft/bootstrap/node/media/gpt"
)

// grubConfig is /boot/grub/grub.cfg.
//
//go:embed grub.cfg
var grubConfig []byte

// earlyConfig is built into GRUB, and finds grub.cfg.
//
//go:embed early.cfg
var earlyConfig []byte

// modules are built into GRUB, which loads none from the medium: all that grub.cfg uses, and what helps a person in
// GRUB's shell.
func modules(platform ...string) []string {
	return append([]string{
		"normal", "search", "search_label", "regexp", "part_gpt", "part_msdos", "fat", "iso9660", "linux", "boot", "test", "echo", "sleep",
		"loadenv", "configfile", "serial", "terminal", "minicmd", "reboot", "halt", "ls", "cat",
	}, platform...)
}

// stageGrub makes GRUB's images.
func (b *builder) stageGrub(ctx context.Context) error {
	early, err := b.write("early.cfg", earlyConfig)
	if err != nil {
		return err
	}
	config, err := b.write("grub.cfg", grubConfig)
	if err != nil {
		return err
	}
	b.grub = []file{config}
	bios := modules("biosdisk")
	for _, image := range []struct {
		name, format, prefix string
		modules              []string
		to                   *string
	}{
		{"core.img", "i386-pc", "(,gpt2)/boot/grub", bios, &b.core},
		{"eltorito.img", "i386-pc-eltorito", "/boot/grub", bios, &b.cd},
		{"bootx64.efi", "x86_64-efi", "/boot/grub", modules("all_video"), &b.efi},
	} {
		*image.to = filepath.Join(b.work, image.name)
		dir := "x86_64-efi"
		if image.format != dir {
			dir = "i386-pc"
		}
		if err := b.tool(ctx, "grub-mkimage", append([]string{
			"-O", image.format, "-d", filepath.Join(b.config.Grub, dir), "-p", image.prefix, "-c", early.from, "-o", *image.to,
		}, image.modules...)...); err != nil {
			return err
		}
	}
	return nil
}

// Places in GRUB's boot.img and in the first sector of its core image (GRUB's include/grub/i386/pc/boot.h).
const (
	bootCode        = 440
	bootKernelAt    = 0x5c
	bootDriveCheck  = 0x66
	coreListAt      = 0x1f4
	coreLoadSegment = 0x820
)

// patchedBoot is the code for the MBR, of boot.img: it loads the core image's first sector.
func patchedBoot(boot []byte, core uint64) ([]byte, error) {
	if len(boot) != gpt.Sector {
		return nil, fmt.Errorf("cannot use GRUB's boot.img: it has %d bytes, must have %d", len(boot), gpt.Sector)
	}
	code := append([]byte(nil), boot[:bootCode]...)
	binary.LittleEndian.PutUint64(code[bootKernelAt:], core)
	// As grub-install does for a hard disk: some BIOSes tell a wrong drive. Two no-operations replace a jump.
	code[bootDriveCheck], code[bootDriveCheck+1] = 0x90, 0x90
	return code, nil
}

// patchedCore is the core image for a disk where it lies from a sector on: its first sector loads the rest.
func patchedCore(core []byte, at uint64, room int) ([]byte, error) {
	sectors := (len(core) + gpt.Sector - 1) / gpt.Sector
	if sectors < 2 || sectors > room {
		return nil, fmt.Errorf("cannot put GRUB's core image of %d sectors into a partition of %d", sectors, room)
	}
	out := append(append([]byte(nil), core...), make([]byte, sectors*gpt.Sector-len(core))...)
	binary.LittleEndian.PutUint64(out[coreListAt:], at+1)
	binary.LittleEndian.PutUint16(out[coreListAt+8:], uint16(sectors-1))
	binary.LittleEndian.PutUint16(out[coreListAt+10:], coreLoadSegment)
	return out, nil
}

// writeBootCode writes GRUB for BIOS onto a disk: the code in the MBR and the core image in its partition.
func (b *builder) writeBootCode(disk *os.File, p gpt.Partition) error {
	boot, err := os.ReadFile(filepath.Join(b.config.Grub, "i386-pc", "boot.img"))
	if err != nil {
		return err
	}
	core, err := os.ReadFile(b.core)
	if err != nil {
		return err
	}
	if boot, err = patchedBoot(boot, p.Start); err != nil {
		return err
	}
	if core, err = patchedCore(core, p.Start, int(p.Sectors)); err != nil {
		return err
	}
	if _, err := disk.WriteAt(boot, 0); err != nil {
		return err
	}
	_, err = disk.WriteAt(core, int64(p.Start)*gpt.Sector)
	return err
}
