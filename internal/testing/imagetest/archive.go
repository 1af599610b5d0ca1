package imagetest

import (
	"archive/tar"
	"os"

	"github.com/pkg/errors"
)

// TarFolder writes a folder's content as one tar.
func TarFolder(path, dir string) error {
	f, err := os.Create(path)
	if err != nil {
		return errors.Wrap(err, "cannot write a tar")
	}
	defer f.Close()
	w := tar.NewWriter(f)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		return errors.Wrap(err, "cannot write a tar")
	}
	if err := w.Close(); err != nil {
		return errors.Wrap(err, "cannot write a tar")
	}
	return errors.Wrap(f.Close(), "cannot write a tar")
}
