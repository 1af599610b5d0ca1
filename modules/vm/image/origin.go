package image

import (
	"context"
	"io"

	"github.com/opencontainers/go-digest"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/registry"
	"github.com/croft-edge/croft/pkg/vmimage"
)

// origin is where versions of an image are fetched from. It is for one goroutine.
type origin interface {
	// look asks which version there is now. It fetches no file of it.
	look(ctx context.Context) (offer, error)
}

// offer is the version that there is now.
type offer interface {
	digest() digest.Digest
	// contents returns the version's own manifest, and the files that it names, in the order in which they are fetched.
	// It is asked for versions that aren't here. node.Refused when the version can't be an image.
	contents(ctx context.Context) (manifest []byte, files []file, err error)
	close()
}

// file is one file of a version.
type file struct {
	name string
	size int64
	sum  digest.Digest
	from content
}

// content is where the bytes of a file are.
type content interface {
	// usable returns how many of the bytes in part, which were fetched earlier, needn't be fetched again.
	usable(ctx context.Context, part io.Reader, bytes int64) (int64, error)
	// open returns the bytes from an offset on, which usable has returned.
	open(ctx context.Context, at int64) (io.ReadCloser, error)
	// wrap gives an error of a reader its kind.
	wrap(err error) error
	// paced reports whether the bytes must come with Speed, proven whether those that usable counts are right for sure.
	paced() bool
	proven() bool
}

// newOrigin is where the source's versions come from; nil when nothing is fetched. It asks nobody.
func newOrigin(c Config, s *shelf) (origin, error) {
	switch {
	case c.Source.artifact.Text != "":
		return artifacts{registry.New(c.Registries), c.Source.artifact}, nil
	case c.Source.flist.url != "":
		return newFlists(c, s)
	}
	return nil, nil
}

// unusable makes the error of a version that can't be used.
func unusable(format string, args ...any) error {
	return node.Errorf(node.Refused, "cannot use the image: "+format, args...)
}

// boundFiles is the error of too many or too large files.
func boundFiles(files []file) (total int64, err error) {
	for _, f := range files {
		if f.size > Bytes.Each-total {
			Bytes.Reached()
			return 0, unusable("it has more than %d bytes", Bytes.Each)
		}
		total += f.size
	}
	return total, nil
}

// described reads a version's own manifest.
func described(raw []byte) (vmimage.Description, error) {
	d, err := vmimage.Describe(raw)
	if err != nil {
		return d, unusable("%w", err)
	}
	return d, nil
}
