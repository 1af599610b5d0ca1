package vmguest

import (
	"os"
	"path/filepath"

	"github.com/croft-edge/croft/pkg/vmimage"
)

// MakeImage makes a node's image of the guest in a folder, which it makes too.
func MakeImage(folder string) error {
	guest, err := Make()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	image := vmimage.Image{Name: "small", Version: "1", Kernel: "vmlinuz", Initrd: "initrd", Arguments: "quiet panic=1 " + CheapBoot}
	for name, from := range map[string]string{image.Kernel: guest.Kernel, image.Initrd: guest.Initrd} {
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return err
		}
	}
	return vmimage.Write(folder, image)
}
