package carrier

import "github.com/croft-edge/croft/pkg/carrier"

// folderOf is {run}/wg.
func folderOf(runDir string) carrier.Folder { return carrier.FolderOf(runDir, "wg") }
