package guest

import (
	"io"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/pkg/errors"
	"golang.org/x/sync/errgroup"
)

// readBytes is how much ReadAhead reads at once: a block of the image's root file system.
const readBytes = 256 << 10

// ReadAhead reads a file into the kernel's page cache, with all processors. A program on a compressed file system whose blocks are verified
// begins sooner after it: it would wait for one block after the other.
func ReadAhead(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return errors.Wrap(err, "cannot read ahead")
	}
	defer file.Close()
	var next atomic.Int64
	var readers errgroup.Group
	for range runtime.NumCPU() {
		readers.Go(func() error {
			for buffer := make([]byte, readBytes); ; {
				switch _, err := file.ReadAt(buffer, next.Add(readBytes)-readBytes); {
				case errors.Is(err, io.EOF):
					return nil
				case err != nil:
					return err
				}
			}
		})
	}
	return errors.Wrap(readers.Wait(), "cannot read ahead")
}
