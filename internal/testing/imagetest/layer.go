package imagetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"

	"github.com/google/go-containerregistry/pkg/compression"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/pkg/errors"
)

func (l *layer) build(docker bool) (v1.Layer, error) {
	raw, err := l.tar()
	if err != nil {
		return nil, err
	}
	if l.plain {
		return static.NewLayer(raw, types.OCIUncompressedLayer), nil
	}
	media, how := types.OCILayer, compression.GZip
	if docker {
		media = types.DockerLayer
	}
	if l.zstd {
		media, how = types.OCILayerZStd, compression.ZStd
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil }
	made, err := tarball.LayerFromOpener(open, tarball.WithCompression(how), tarball.WithCompressionLevel(gzip.BestSpeed),
		tarball.WithMediaType(media), tarball.WithCompressedCaching)
	return made, errors.Wrap(err, "cannot pack a layer")
}

func (l *layer) tar() ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range l.entries {
		content := e.content
		if e.make != nil {
			made, err := e.make()
			if err != nil {
				return nil, err
			}
			content = made
		}
		e.header.Size = int64(len(content))
		if err := w.WriteHeader(&e.header); err != nil {
			return nil, errors.Wrapf(err, "cannot add %q to a layer", e.header.Name)
		}
		if _, err := w.Write(content); err != nil {
			return nil, errors.Wrapf(err, "cannot add %q to a layer", e.header.Name)
		}
	}
	return out.Bytes(), errors.Wrap(w.Close(), "cannot end a layer")
}
