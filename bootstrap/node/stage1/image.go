package main

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/guest/cmdline"
	"github.com/croft-edge/croft/internal/guest/fslabel"
	"github.com/croft-edge/croft/internal/guest/kmod"
	"github.com/croft-edge/croft/internal/nodeimage"
)

const (
	// keyFile is the public key that images must be signed by; it isn't there when the initrd was built without one.
	keyFile = "/image.pub"
	// broughtFolder has the image when the network brought it.
	broughtFolder = "/image"
	// bootLabel is the label of the file system with images, bootAt where it is mounted: here, and later in the root file system.
	bootLabel = "CROFT-BOOT"
	bootAt    = "/boot"
	// patience is how long the disk with the image may take to appear: USB sticks and SAS controllers need seconds.
	patience = 60 * time.Second
	pause    = 50 * time.Millisecond
)

// found is an image that the machine can boot.
type found struct {
	folder string
	// device has it; empty if it is in memory. slot is its folder there.
	device, slot string
}

// booted says what is booted: the image of a version, signed by the key, which is nil where none is built in.
func (f found) booted(version string, key ed25519.PublicKey) string {
	signed := "signed"
	if key == nil {
		signed = "not signed: no key is built in"
	}
	return f.String() + ", version " + version + ", " + signed
}

func (f found) String() string {
	if f.device == "" {
		return "the image is in memory"
	}
	return "the image is in slot " + f.slot + " of " + f.device
}

// builtInKey is the key in a file, by which images must be signed; nil without the file.
func builtInKey(file string) (ed25519.PublicKey, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, errors.Wrap(err, "cannot read the key of images")
	}
	return nodeimage.DecodeKey(text)
}

// chosenSlot is the slot that the boot loader has chosen.
func chosenSlot(line cmdline.Line) (string, error) {
	slot, ok := line.Get("croft.slot")
	if !ok {
		return nodeimage.Slots()[0], nil
	}
	if !slices.Contains(nodeimage.Slots(), slot) {
		return "", errors.Errorf("cannot boot: croft.slot is %q, must be one of %q", slot, nodeimage.Slots())
	}
	return slot, nil
}

// find looks for the image, and loads the drivers of devices that appear meanwhile. What the network brought comes first.
func find(slot string) (found, error) {
	modules, err := kmod.Open("/modules")
	if err != nil {
		return found{}, err
	}
	var others sync.WaitGroup // loads modules beside the drivers of devices
	defer others.Wait()
	others.Go(func() {
		// Each block of the root file system is hashed: a processor that can do it faster does, where the kernel has a module for that.
		_ = modules.Load(fasterHash)
		load(modules, needed()...)
	})
	if _, err := os.Stat(filepath.Join(broughtFolder, nodeimage.ManifestFile)); err == nil {
		return found{folder: broughtFolder}, nil
	}
	others.Go(func() { load(modules, fileSystems()...) })
	refused := map[string]string{}
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(pause) {
		if _, err := modules.LoadForDevices("/sys", nil); err != nil && refused["modules"] != err.Error() {
			refused["modules"] = err.Error()
			say("not all drivers are loaded: %v", err)
		}
		others.Wait()
		for _, device := range blockDevices("/sys/class/block") {
			got, err := try(device, slot)
			if err == nil {
				return got, nil
			}
			if text := err.Error(); !errors.Is(err, errNoImages) && refused[device] != text {
				refused[device] = text
				say("%s: %v", device, err)
			}
		}
	}
	return found{}, errors.Errorf("cannot find the image: after %s no file system labelled %s has it in slot %s", patience, bootLabel, slot)
}

// fasterHash is the kernel's SHA-256 for processors with SSSE3, AVX or their own instructions for it. Others refuse it.
const fasterHash = "sha256-ssse3"

// needed are modules that no device asks for; fileSystems those of boot media.
func needed() []string { return []string{"loop", "dm-verity", "squashfs"} }
func fileSystems() []string {
	return []string{"isofs", "vfat", "nls_cp437", "nls_ascii", "nls_iso8859-1"}
}

func load(modules *kmod.Modules, names ...string) {
	for _, name := range names {
		if err := modules.Load(name); err != nil {
			say("%v", err)
		}
	}
}

// blockDevices are the disks, partitions and optical drives that the kernel shows in a folder of sysfs, but for its own.
func blockDevices(folder string) []string {
	entries, _ := os.ReadDir(folder)
	var out []string
	for _, e := range entries {
		if !slices.ContainsFunc([]string{"loop", "ram", "dm-", "zram", "md"}, func(own string) bool { return strings.HasPrefix(e.Name(), own) }) {
			out = append(out, "/dev/"+e.Name())
		}
	}
	return out
}

var errNoImages = errors.New("it has no images")

// try mounts a device that may have images, and leaves it mounted if it has the one of that slot.
func try(device, slot string) (found, error) {
	label, err := fslabel.Of(device)
	if err != nil || !label.Is(bootLabel) {
		return found{}, errNoImages // a drive without a disk can't be read
	}
	if err := os.MkdirAll(bootAt, 0o755); err != nil {
		return found{}, err
	}
	// The device of an optical drive can only be read; that of a disk is made writable by init when it installs an image.
	if err := unix.Mount(device, bootAt, label.Kind, unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return found{}, errors.Wrapf(err, "cannot mount %s", device)
	}
	got := found{folder: filepath.Join(bootAt, nodeimage.SlotFolder(slot)), device: device, slot: slot}
	if _, err := os.Stat(filepath.Join(got.folder, nodeimage.ManifestFile)); err != nil {
		return found{}, errors.Wrap(errors.Wrapf(err, "cannot find an image in slot %s", slot), unmounted())
	}
	return got, nil
}

// unmounted unmounts the boot medium, and says when that fails.
func unmounted() string {
	if err := unix.Unmount(bootAt, 0); err != nil {
		return "and cannot unmount it: " + err.Error()
	}
	return "unmounted again"
}

// check reads the manifest of an image, checks its signature with the key, which is nil where none is built in, and that the root file
// system is the manifest's. That the root file system isn't damaged the kernel finds when it reads it.
func check(folder string, key ed25519.PublicKey) (nodeimage.Manifest, error) {
	raw, err := readSmall(filepath.Join(folder, nodeimage.ManifestFile))
	if err != nil {
		return nodeimage.Manifest{}, err
	}
	if key != nil {
		signature, err := readSmall(filepath.Join(folder, nodeimage.SignatureFile))
		if err != nil {
			return nodeimage.Manifest{}, errors.Wrap(err, "cannot check the image's signature")
		}
		if err := nodeimage.Verify(key, raw, signature); err != nil {
			return nodeimage.Manifest{}, err
		}
	}
	image, err := nodeimage.Decode(raw)
	if err != nil {
		return nodeimage.Manifest{}, err
	}
	return image, errors.Wrap(checkRoot(filepath.Join(folder, nodeimage.RootFile), image), "cannot use the image's root file system")
}

// checkRoot checks the size of a root file system and the root hash of its hash tree.
func checkRoot(file string, image nodeimage.Manifest) error {
	root, err := os.Open(file)
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Stat()
	if err != nil {
		return err
	}
	if want := image.Root.FileBytes(); !info.Mode().IsRegular() || info.Size() != want {
		return errors.Errorf("%s has %d bytes, must be a file of %d", file, info.Size(), want)
	}
	return errors.Wrapf(image.Root.CheckTop(root), "%s isn't of this image", file)
}

// readSmall reads a file that nobody has vouched for yet.
func readSmall(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, errors.Wrap(err, "cannot read the image")
	}
	if !info.Mode().IsRegular() || info.Size() > nodeimage.MostManifest {
		return nil, errors.Errorf("cannot read %s: it must be a file of at most %d bytes", path, nodeimage.MostManifest)
	}
	raw, err := os.ReadFile(path)
	return raw, errors.Wrap(err, "cannot read the image")
}
