package main

import (
	"crypto/ed25519"
	"fmt"
	"os"

	"github.com/croft-edge/croft/bootstrap/internal/imagebuild"
	"github.com/croft-edge/croft/internal/nodeimage"
)

// config says what to build.
type config struct {
	// source is the root folder of croft's source.
	source string
	// out is the folder of the image; cache is kept between builds.
	out, cache string
	// version and commit are croft's.
	version, commit string
	// newestKernel is the package that depends on the newest kernel of its kind.
	newestKernel string
	// level is zstd's for the root file system, 1 to 22.
	level int
	// key signs the image; nil for one without a signature.
	key ed25519.PrivateKey
	// run runs the commands that aren't Go's.
	run imagebuild.Runner
}

// kernels are the packages of kernels by what -kernel names them. They have the drivers of real machines.
func kernels() map[string]string {
	return map[string]string{"": "linux-image-amd64", "6.12": "linux-image-6.12-amd64"}
}

// choose sets the kernel's package, and reads the key from its file, which may be empty.
func (c *config) choose(kernel, keyFile string) error {
	var ok bool
	if c.newestKernel, ok = kernels()[kernel]; !ok {
		return fmt.Errorf("cannot take the kernel %q: -kernel must be 6.12 or left out", kernel)
	}
	if keyFile == "" {
		return nil
	}
	text, err := os.ReadFile(keyFile)
	if err != nil {
		return fmt.Errorf("cannot read the key that signs the image: %w", err)
	}
	c.key, err = nodeimage.DecodePrivateKey(text)
	return err
}

// publicKey is the text of the key that machines check images with; nil without one.
func (c *config) publicKey() []byte {
	if c.key == nil {
		return nil
	}
	return nodeimage.EncodeKey(c.key.Public().(ed25519.PublicKey))
}
