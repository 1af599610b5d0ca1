package image_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
	"github.com/croft-edge/croft/pkg/node/stubs"
)

// subject is a world as the suite wants it, spoken to through client.
func subject(t *testing.T, client func(t *testing.T, w *world) conformance.ImagesClient) conformance.ImagesSubject {
	w := open(t)
	good, bad := imagetest.New().File("/v", "1", 0o644), imagetest.New().File("/bad", "bad", 0o644)
	digest := w.push(good, "app:1")
	w.push(bad, "bad:1")
	i, err := bad.Image()
	must(t, err)
	layers, err := i.Layers()
	must(t, err)
	wrong, err := layers[0].Digest()
	must(t, err)
	w.registry.Set(imagetest.Faults{Change: func(path string, body []byte) []byte {
		if strings.HasSuffix(path, wrong.String()) {
			return make([]byte, len(body))
		}
		return body
	}})
	path := filepath.Join(w.dir, "image.tar")
	_, err = imagetest.New().File("/v", "path", 0o644).Tar(path)
	must(t, err)
	return conformance.ImagesSubject{
		Client: client(t, w), Tag: w.ref("app:1"), Digest: w.ref("app@" + digest), Path: path, Missing: w.ref("none:1"), Wrong: w.ref("bad:1"),
		Move:   func(*testing.T) { w.push(imagetest.New().File("/v", "2", 0o644), "app:1") },
		Unplug: func(*testing.T) { w.registry.Close() },
		Restart: func(t *testing.T) conformance.ImagesClient {
			w.again()
			return client(t, w)
		},
	}
}

func TestTheContract(t *testing.T) {
	conformance.ImagesSuite(t, func(t *testing.T) conformance.ImagesSubject {
		return subject(t, func(_ *testing.T, w *world) conformance.ImagesClient { return w.Store })
	})
}

func TestTheContractThroughItsStub(t *testing.T) {
	conformance.ImagesSuite(t, func(t *testing.T) conformance.ImagesSubject {
		return subject(t, func(t *testing.T, w *world) conformance.ImagesClient {
			object := bus.Object(node.ImageObject, node.ImageVersion)
			return stubs.NewImagesStub(conformance.OnBus[node.Images](t, node.ContainerModule, object, w.Images()))
		})
	})
}
