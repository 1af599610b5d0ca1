package media

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/croft-edge/croft/internal/grubenv"
)

const (
	// Label is that of the file system that GRUB boots from; stage 1 looks for it too.
	Label = "CROFT-BOOT"
	// ConfigLabel is that of the file system for a node's settings.
	ConfigLabel = "CROFTCONFIG"
	// ConfigName is the name of its partition.
	ConfigName = "croft-config"

	// ISO is the name of the file for CDs and USB sticks.
	ISO = "croft.iso"
	// Disk is the name of the disk image.
	Disk = "croft.img"
	// Script is the name of the script for iPXE.
	Script = "boot.ipxe"

	// leastSlot is the least room for an image, which is made larger for a large one.
	leastSlot = 192 << 20
	// temporary is how the folder begins in which media are made.
	temporary = ".media-"
)

// Config says what media are made of.
type Config struct {
	// Folder is the image's folder.
	Folder string
	// Out is the folder for the media: Folder if it is empty.
	Out string
	// Arguments are the image's own for the kernel's command line.
	Arguments string
	// SlotSize is the room in bytes for each of the two images of croft.img. 0 is one and a half times the image's size,
	// at least 192 MiB.
	SlotSize int64
	// Grub is the folder with GRUB's modules: /usr/lib/grub if it is empty.
	Grub string
}

// epoch is the time of all that is on a medium: the first that a FAT file system knows.
func epoch() time.Time { return time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC) }

// BuildPackages are the Debian packages whose programs Build runs.
func BuildPackages() []string {
	return append(Packages(), "grub-common", "xorriso", "mtools", "dosfstools")
}

// Packages are the Debian packages whose code is on the media, beside the image.
func Packages() []string { return []string{"grub-pc-bin", "grub-efi-amd64-bin"} }

// Build makes croft.iso, croft.img and boot.ipxe. Each of the three is replaced as a whole.
func Build(ctx context.Context, c Config) error {
	if c.Out == "" {
		c.Out = c.Folder
	}
	if c.Grub == "" {
		c.Grub = "/usr/lib/grub"
	}
	work, err := os.MkdirTemp(c.Out, temporary)
	if err != nil {
		return fmt.Errorf("cannot make boot media: %w", err)
	}
	defer os.RemoveAll(work)
	b := builder{config: c, work: work}
	for _, step := range []func(context.Context) error{b.stageImage, b.stageGrub, b.makeISO, b.makeDisk, b.writeScript} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("cannot make boot media of the image in %s: %w", c.Folder, err)
		}
	}
	for _, name := range []string{ISO, Disk, Script} {
		if err := place(filepath.Join(work, name), filepath.Join(c.Out, name)); err != nil {
			return fmt.Errorf("cannot make boot media: %w", err)
		}
	}
	return nil
}

// builder makes one set of media in the folder work.
type builder struct {
	config Config
	work   string
	// image are the files of the slot, grub those of /boot/grub, both in order.
	image, grub []file
	// core is GRUB's core image for a disk, cd that for a CD, both for BIOS; efi is GRUB for UEFI.
	core, cd, efi string
}

// file is a file for a medium: its name there, without its folder, and where it is on this machine.
type file struct {
	name, from string
	size       int64
}

// stageImage finds the image's files.
func (b *builder) stageImage(context.Context) error {
	for _, name := range []string{"vmlinuz", "initrd", "root.squashfs", "image.json", "image.json.sig"} {
		from := filepath.Join(b.config.Folder, name)
		info, err := os.Stat(from)
		if os.IsNotExist(err) && name == "image.json.sig" {
			continue
		}
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() || info.Size() == 0 {
			return fmt.Errorf("cannot take %s: it must be a file with content", from)
		}
		b.image = append(b.image, file{name: name, from: from, size: info.Size()})
	}
	if b.config.Arguments == "" {
		return nil
	}
	var block grubenv.Block
	if err := block.Set("cmdline", b.config.Arguments); err != nil {
		return err
	}
	content, err := block.Encode()
	if err != nil {
		return err
	}
	added, err := b.write("cmdline", content)
	b.image = append(b.image, added)
	return err
}

// write makes a file in the work folder.
func (b *builder) write(name string, content []byte) (file, error) {
	at := filepath.Join(b.work, name)
	if err := os.WriteFile(at, content, 0o644); err != nil {
		return file{}, err
	}
	return file{name: name, from: at, size: int64(len(content))}, nil
}

// slotSize is the room for an image on croft.img.
func (b *builder) slotSize() (int64, error) {
	var size int64
	for _, f := range b.image {
		size += f.size
	}
	room := b.config.SlotSize
	if room == 0 {
		room = max(leastSlot, size+size/2)
	}
	if size > room {
		return 0, fmt.Errorf("cannot put an image of %d bytes into a slot of %d", size, room)
	}
	return room, nil
}

// place moves a finished file to where it belongs. All users may read it.
func place(from, to string) error {
	made, err := os.OpenFile(from, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer made.Close()
	if err := made.Chmod(0o644); err != nil {
		return err
	}
	if err := made.Sync(); err != nil {
		return err
	}
	return os.Rename(from, to)
}
