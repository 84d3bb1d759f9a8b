-- Starts `tclint lsp` for buffers of type ptx. vim.g.tclint_cmd names another command, vim.g.tclint_settings has
-- settings as a tclint-ptx.toml would, for example { ignore = { 'toolchain' } }.

local markers = { 'tclint-ptx.toml', 'pyproject.toml', '.git' }

local function configuration()
  return {
    name = 'tclint',
    cmd = vim.g.tclint_cmd or { 'tclint', 'lsp' },
    init_options = { settings = vim.g.tclint_settings or vim.empty_dict() },
  }
end

if vim.lsp.config then -- Neovim 0.11 and later
  vim.lsp.config('tclint', vim.tbl_extend('error', configuration(), { filetypes = { 'ptx' }, root_markers = markers }))
  vim.lsp.enable('tclint')
  return
end

-- The folder of the nearest marker upwards; else that of the file.
local function root(file)
  local folder = vim.fn.fnamemodify(file, ':p:h')
  for _, marker in ipairs(markers) do
    for _, find in ipairs({ vim.fn.findfile, vim.fn.finddir }) do
      local found = find(marker, folder .. ';')
      if found ~= '' then
        return vim.fn.fnamemodify(found, ':p'):gsub('/$', ''):gsub('/[^/]*$', '')
      end
    end
  end
  return folder
end

local clients = {}

local function attach(buffer)
  local settings = configuration()
  settings.root_dir = root(vim.api.nvim_buf_get_name(buffer))
  if vim.lsp.start then -- Neovim 0.8 and later
    vim.lsp.start(settings, { bufnr = buffer })
    return
  end
  local client = clients[settings.root_dir]
  if not client or vim.lsp.client_is_stopped(client) then
    client = vim.lsp.start_client(settings)
    clients[settings.root_dir] = client
  end
  if client then
    vim.lsp.buf_attach_client(buffer, client)
  end
end

vim.api.nvim_create_autocmd('FileType', {
  pattern = 'ptx',
  group = vim.api.nvim_create_augroup('tclint', {}),
  callback = function(about)
    attach(about.buf)
  end,
})
