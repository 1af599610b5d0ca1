package main

import (
	"context"
	"maps"
	"path/filepath"
	"slices"

	"github.com/croft-edge/croft/bootstrap/internal/imagebuild"
)

const (
	stage1Folder = "bootstrap/node/stage1"
	initProgram  = "/sbin/init"
	// stage1Program is the place in the initrd.
	stage1Program = "/init"
)

// ownFolders are the folders of croft's own programs by their places in the image.
func ownFolders() map[string]string {
	return map[string]string{
		"/usr/bin/croftd": "cmd/croftd", "/usr/bin/croft": "cmd/croft", "/usr/bin/zdb": "cmd/zdb", "/usr/bin/croft-init": "cmd/croft-init",
		initProgram: "bootstrap/node/init", stage1Program: stage1Folder,
	}
}

// compilePrograms compiles croft's own programs into a folder, as the Makefile does, and reads what they are made of. The paths are by
// the programs' places in the image.
func compilePrograms(ctx context.Context, c config, work string) (map[string]string, []imagebuild.Program, error) {
	files, programs := map[string]string{}, []imagebuild.Program{}
	folders := ownFolders()
	for _, at := range slices.Sorted(maps.Keys(folders)) {
		p := imagebuild.OwnProgram{
			Source: c.source, Dir: folders[at], Tags: []string{"grpcnotrace"},
			Flags: []string{"-X main.version=" + c.version, "-X main.commit=" + c.commit},
		}
		files[at] = filepath.Join(work, filepath.Base(folders[at]))
		if err := p.Compile(ctx, files[at]); err != nil {
			return nil, nil, err
		}
		read, err := imagebuild.ReadProgram(files[at], at, c.version)
		if err != nil {
			return nil, nil, err
		}
		programs = append(programs, read)
	}
	return files, programs, nil
}
