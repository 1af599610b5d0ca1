package main

import (
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/croft-edge/croft/internal/testing/imagetest"
)

// containerUser is the user and group of the containers of the image's own images: nobody of any image.
const containerUser = "65532:65532"

// containerImage is an image of one static program.
type containerImage struct {
	// name has a tag.
	name string
	// program is the program's place in the image, from its path on this machine.
	program, from string
	// authorities is the path of a bundle of certificate authorities on this machine; empty for none.
	authorities string
}

// write writes the image as docker save does. Its layer isn't compressed: the root file system compresses it better,
// and a guest without hardware virtualization needs seconds to unpack it.
func (i containerImage) write(to string) error {
	program, err := os.ReadFile(i.from)
	if err != nil {
		return err
	}
	b := imagetest.New().Docker().Plain().Platform("linux", "amd64").Config(func(c *v1.Config) {
		c.User, c.Entrypoint, c.WorkingDir = containerUser, []string{i.program}, "/"
	})
	if i.authorities != "" {
		text, err := os.ReadFile(i.authorities)
		if err != nil {
			return err
		}
		b.Dir("/etc", 0o755).Dir("/etc/ssl", 0o755).Dir("/etc/ssl/certs", 0o755).File(bundle, string(text), 0o644)
	}
	return b.File(i.program, string(program), 0o755).DockerTar(to, i.name)
}
