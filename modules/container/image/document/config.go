package document

import (
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// DecodeConfig reads an image's config: its platform, its layers, and of how it is
// run the user, the environment, entry point and command, the working directory
// and the stop signal. node.Invalid.
func DecodeConfig(raw []byte) (ocispec.Image, error) {
	var c ocispec.Image
	s, err := open(raw, "config", '{')
	if err != nil {
		return c, err
	}
	members := s.platform(&c.Platform)
	members["config"] = func() error { return s.run(&c.Config) }
	members["rootfs"] = func() error {
		return s.object("config's rootfs", map[string]func() error{
			"type": func() (err error) { c.RootFS.Type, err = s.str("rootfs type", mostName); return err },
			"diff_ids": func() error {
				return s.list("layers in its config", Layers, func(int) error {
					text, err := s.str("config's layer", mostName)
					c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, digest.Digest(text))
					return err
				})
			},
		})
	}
	if err := s.object("config", members); err != nil {
		return ocispec.Image{}, err
	}
	return c, nil
}

// run reads how an image is run.
func (s *scanner) run(c *ocispec.ImageConfig) error {
	text := func(name string, into *string) func() error {
		return func() (err error) { *into, err = s.str("config's "+name, mostText); return err }
	}
	return s.object("config", map[string]func() error{
		"User": text("User", &c.User), "WorkingDir": text("WorkingDir", &c.WorkingDir), "StopSignal": text("StopSignal", &c.StopSignal),
		"Env":        func() error { return s.strings("variables in its config", &c.Env) },
		"Entrypoint": func() error { return s.strings("words in its entry point", &c.Entrypoint) },
		"Cmd":        func() error { return s.strings("words in its command", &c.Cmd) },
	})
}

// Saved is an image in the manifest.json of docker save: the names of its files.
type Saved struct {
	Config string
	Layers []string
}

// DecodeSaved reads the manifest.json of docker save, which must have one image.
// node.Invalid.
func DecodeSaved(raw []byte) (Saved, error) {
	var out Saved
	s, err := open(raw, "manifest.json", '[')
	if err != nil {
		return out, err
	}
	images := 0
	err = s.list("images", upTo(1), func(int) error {
		images++
		return s.object("manifest.json", map[string]func() error{
			"Config": func() (err error) { out.Config, err = s.str("config's name", mostName); return err },
			"Layers": func() error {
				return s.list("layers", Layers, func(int) error {
					text, err := s.str("layer's name", mostName)
					out.Layers = append(out.Layers, text)
					return err
				})
			},
		})
	})
	if err == nil && images == 0 {
		err = invalid("its manifest.json has no image, must have 1")
	}
	return out, err
}
