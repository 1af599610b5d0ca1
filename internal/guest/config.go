package guest

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/nocloud"
)

// IsConfig reports whether a device has an ISO 9660 file system with the config disk's label.
func IsConfig(device string) bool {
	f, err := os.Open(device)
	if err != nil {
		return false
	}
	defer f.Close()
	// The primary volume descriptor.
	descriptor := make([]byte, 72)
	if _, err := f.ReadAt(descriptor, 16*2048); err != nil {
		return false
	}
	return bytes.HasPrefix(descriptor, []byte("\x01CD001")) && string(bytes.TrimRight(descriptor[40:], " ")) == nocloud.Label
}

// ReadConfig mounts the config disk at a folder with the kernel's isofs, and reads it. The files are returned too, by name.
func ReadConfig(device, at string) (nocloud.Config, map[string][]byte, error) {
	if device == "" {
		return nocloud.Config{}, nil, errors.Errorf("there is no disk labelled %s", nocloud.Label)
	}
	if err := os.MkdirAll(at, 0o700); err != nil {
		return nocloud.Config{}, nil, err
	}
	if err := unix.Mount(device, at, "iso9660", unix.MS_RDONLY, ""); err != nil {
		return nocloud.Config{}, nil, errors.Wrap(err, "cannot mount the config disk")
	}
	entries, err := os.ReadDir(at)
	if err != nil {
		return nocloud.Config{}, nil, err
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(at, e.Name())); err != nil {
			return nocloud.Config{}, nil, err
		}
	}
	config, err := nocloud.Decode(files)
	return config, files, err
}
