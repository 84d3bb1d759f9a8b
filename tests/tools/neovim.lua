-- What a person does: open a kernel, look at the diagnostics, ask for actions, apply one, save.
local out = {}

local function wait(what, condition)
  if not vim.wait(30000, condition, 20) then
    error('no ' .. what .. ': ' .. vim.inspect(vim.diagnostic.get(0)))
  end
end

local function shown()
  local found = {}
  for _, d in ipairs(vim.diagnostic.get(0)) do
    table.insert(found, { code = d.code, line = d.lnum, column = d.col, source = d.source, message = d.message })
  end
  return found
end

local function run()
  vim.cmd('edit ' .. vim.env.KERNEL)
  out.filetype = vim.bo.filetype
  wait('diagnostics', function() return #vim.diagnostic.get(0) > 0 end)
  out.before = shown()
  local first
  for _, d in ipairs(vim.diagnostic.get(0)) do
    if d.code == vim.env.RULE then first = d end
  end
  vim.api.nvim_win_set_cursor(0, { first.lnum + 1, first.col })
  local params = vim.lsp.util.make_range_params(0, 'utf-16')
  params.context = { diagnostics = {} }
  out.actions = {}
  for _, answer in pairs(vim.lsp.buf_request_sync(0, 'textDocument/codeAction', params, 30000)) do
    for _, action in ipairs(answer.result or {}) do
      table.insert(out.actions, action.title)
      if action.title == vim.env.ACTION then
        vim.lsp.util.apply_workspace_edit(action.edit, 'utf-16')
      end
    end
  end
  wait('change of them', function()
    for _, d in ipairs(vim.diagnostic.get(0)) do
      if d.code == vim.env.RULE then return false end
    end
    return true
  end)
  out.after = shown()
  vim.cmd('write')
end

local done, message = pcall(run)
if not done then out.error = tostring(message) end
vim.fn.writefile({ vim.fn.json_encode(out) }, vim.env.OUT)
vim.cmd('qall!')
