package main

import (
	"os"
	"path/filepath"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/bootstrap/node/init/disks"
	"github.com/croft-edge/croft/bootstrap/node/init/settings"
)

const (
	configMount = "/run/init/config"
	configFile  = "croft.yaml"
	// mostCopied bounds the operator's files, in bytes, and how many there may be in a folder.
	mostCopied      = 1 << 20
	mostCopiedFiles = 100
)

// copied are folders beside the operator's file that croftd reads, and the modes of their files.
func copied() map[string]os.FileMode {
	return map[string]os.FileMode{"secrets": 0o400, "hooks.d": 0o700}
}

// readConfigPartition looks for the file system with the operator's files, and reads them: a file, nil if there is none, and the folders beside
// it, which are copied.
func readConfigPartition() (file []byte, found bool, err error) {
	p, found, err := disks.FindConfig("/sys", "/dev")
	if err != nil || !found {
		return nil, found, err
	}
	if err := p.Mount(configMount); err != nil {
		return nil, true, err
	}
	defer func() { _ = unix.Unmount(configMount, unix.MNT_DETACH) }()
	file, err = readConfig(configMount)
	return file, true, err
}

// readConfig reads the operator's file in a folder, nil if there is none, and copies the folders beside it.
func readConfig(folder string) ([]byte, error) {
	for name, mode := range copied() {
		if err := copyFolder(filepath.Join(folder, name), filepath.Join(configAt, name), mode); err != nil {
			return nil, err
		}
	}
	raw, err := readBounded(filepath.Join(folder, configFile), settings.MostFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return raw, err
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
