package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"

	"github.com/croft-edge/croft/bootstrap/internal/imagebuild"
)

// profiles is the folder that AppArmor's parser looks for included files in.
const profiles = "/etc/apparmor.d"

// include is a line of AppArmor's files that has another file, or all files of a folder, read (apparmor.d(5)). Those with "if exists" may lack it.
var include = regexp.MustCompile(`(?m)^\s*#?include <([^>]+)>`)

// checkIncludes looks for files that AppArmor's files include and that aren't in the image: its parser would refuse every profile, and the node
// would run no container.
func checkIncludes(r imagebuild.RootFolder) error {
	return filepath.WalkDir(r.At(profiles), func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, found := range include.FindAllSubmatch(text, -1) {
			if _, err := os.Stat(r.At(path.Join(profiles, string(found[1])))); err != nil {
				return fmt.Errorf("cannot have %s: it includes %s, which the image lacks: %w", name, found[1], err)
			}
		}
		return nil
	})
}
