package container

import (
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/modules/container/ownimage"
)

// installed is the path of a program that comes with croftd: the configured one, else the one beside
// croftd. Empty where there is none on this machine.
func installed(said, name string) string {
	if said != "" {
		return said
	}
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	path := filepath.Join(filepath.Dir(self), name)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// zdbImage is the name of zdb's image: croft://zdb.
const zdbImage = "zdb"

// ownImageFolder holds the images of the node's own containers.
func ownImageFolder(c config.Config) string { return filepath.Join(c.StateDir, "own-images") }

// ownImages makes the images of the node's own containers, by name. An image that can't be made is left
// out: its users get an error, and everything else goes on.
func ownImages(c config.Config, log zerolog.Logger) map[string]string {
	program := installed(c.Containers.ZDBBinary, "zdb")
	if program == "" {
		log.Info().Str("module", "container").Msg("zdb is not installed beside croftd, nor named by zdb-binary: this node can't run zdb")
		return nil
	}
	path, err := ownimage.Make(ownImageFolder(c), zdbImage, program)
	if err != nil {
		log.Error().Err(err).Str("module", "container").Msg("there is no image of zdb: this node can't run zdb; all other types work")
		return nil
	}
	return map[string]string{zdbImage: path}
}
