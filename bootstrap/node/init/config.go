package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/bootstrap/node/init/settings"
	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/internal/guest/fslabel"
)

const (
	// configLabel is the label of the file system with the operator's files, or the name of its partition; fatConfigLabel is its label where
	// one has 11 characters at most.
	configLabel    = "croft-config"
	fatConfigLabel = "CROFTCONFIG"
	configMount    = "/run/init/config"
	configFile     = "croft.yaml"
	// mostCopied bounds the operator's files, in bytes, and how many there may be in a folder.
	mostCopied      = 1 << 20
	mostCopiedFiles = 100
)

// copied are folders beside the operator's file that croftd reads, and the modes of their files.
func copied() map[string]os.FileMode {
	return map[string]os.FileMode{"secrets": 0o400, "hooks.d": 0o700}
}

// readConfigPartition looks for the file system with the operator's files, and reads them.
func readConfigPartition() (file []byte, found bool, err error) {
	device, kind := configDevice("/sys", "/dev")
	if device == "" {
		return nil, false, nil
	}
	file, err = readConfig(device, kind)
	return file, true, err
}

// readConfig reads the operator's file on a device, nil if there is none, and copies the folders beside it.
func readConfig(device, kind string) ([]byte, error) {
	if err := os.MkdirAll(configMount, 0o700); err != nil {
		return nil, errors.Wrap(err, "cannot read the operator's settings")
	}
	if err := unix.Mount(device, configMount, kind, unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return nil, errors.Wrapf(err, "cannot read the operator's settings on %s", device)
	}
	defer func() { _ = unix.Unmount(configMount, unix.MNT_DETACH) }()
	for name, mode := range copied() {
		if err := copyFolder(filepath.Join(configMount, name), filepath.Join(configAt, name), mode); err != nil {
			return nil, err
		}
	}
	raw, err := readBounded(filepath.Join(configMount, configFile), settings.MostFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return raw, err
}

// configDevice finds the file system with the operator's files: by its label, or the name of its partition.
func configDevice(sys, dev string) (device, kind string) {
	entries, _ := os.ReadDir(filepath.Join(sys, "class/block"))
	for _, e := range entries {
		found, err := fslabel.Of(filepath.Join(dev, e.Name()))
		if err != nil || found.Kind == "" {
			continue
		}
		event := guest.ReadText(filepath.Join(sys, "class/block", e.Name(), "uevent"))
		named := strings.Contains(strings.ToLower(event)+"\n", "partname="+configLabel+"\n")
		if named || found.Is(configLabel) || found.Kind == fslabel.FAT && found.Is(fatConfigLabel) {
			return filepath.Join(dev, e.Name()), found.Kind
		}
	}
	return "", ""
}

// copyFolder copies the files of a folder, if it is there.
func copyFolder(from, to string, mode os.FileMode) error {
	entries, err := os.ReadDir(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return errors.Wrap(err, "cannot read the operator's files")
	}
	if len(entries) > mostCopiedFiles {
		return errors.Errorf("cannot read the operator's files: %s has %d, must have at most %d", filepath.Base(from), len(entries), mostCopiedFiles)
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return errors.Wrap(err, "cannot copy the operator's files")
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		raw, err := readBounded(filepath.Join(from, e.Name()), mostCopied)
		if err != nil {
			return err
		}
		at := filepath.Join(to, e.Name())
		_ = os.Remove(at) // of an earlier life of init; its mode may forbid writing
		if err := os.WriteFile(at, raw, mode); err != nil {
			return errors.Wrap(err, "cannot copy the operator's files")
		}
	}
	return nil
}

func readBounded(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, errors.Wrap(err, "cannot read the operator's files")
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, errors.Errorf("cannot read the operator's files: %s must be a file of at most %d bytes", filepath.Base(path), most)
	}
	raw, err := os.ReadFile(path)
	return raw, errors.Wrap(err, "cannot read the operator's files")
}

// bytesText is a size as croftd's settings have it: whole MiB.
func bytesText(n uint64) string { return strconv.FormatUint(n>>20, 10) + "MiB" }
